// A terminal that a test holds the other end of.

#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace kernbench::test {

class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
    if (master_ < 0) {  // a bare container may have none
      WARN("there are no pseudo-terminals here");
      return;
    }
    ::grantpt(master_);
    ::unlockpt(master_);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    REQUIRE(slave_ >= 0);
  }
  ~Terminal() {
    ::close(slave_);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool exists() const { return slave_ >= 0; }
  int descriptor() const { return slave_; }

  void set_columns(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(::ioctl(slave_, TIOCSWINSZ, &size) == 0);
  }

  // Returns what was written to it since the last call.
  std::string written() const {
    std::string text;
    std::array<char, 4096> block;
    for (ssize_t count = 0; (count = ::read(master_, block.data(), block.size())) > 0;) {
      text.append(block.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int master_;
  int slave_ = -1;
};

}  // namespace kernbench::test
