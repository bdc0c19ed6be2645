#include "benches/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

// The other end of a terminal.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ < 0) return;  // a bare container may have none
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

 private:
  int master_;
  int slave_ = -1;
};

}  // namespace

TEST_CASE("colour is for terminals, unless NO_COLOR is set", "[console]") {
  const Terminal terminal;
  if (!terminal.exists()) {
    WARN("there are no pseudo-terminals here");
    return;
  }
  ::unsetenv("NO_COLOR");
  CHECK(Console(terminal.descriptor()).alarming("x") == "\x1b[1;31mx\x1b[0m");
  ::setenv("NO_COLOR", "", 1);  // empty counts as not set
  CHECK(Console(terminal.descriptor()).faint("x") == "\x1b[2mx\x1b[0m");
  ::setenv("NO_COLOR", "1", 1);
  CHECK(Console(terminal.descriptor()).alarming("x") == "x");
  ::unsetenv("NO_COLOR");
  const int null = ::open("/dev/null", O_WRONLY);
  CHECK(Console(null).alarming("x") == "x");
  ::close(null);
}

TEST_CASE("a write that fails is told at the end", "[console][errors]") {
  const int full = ::open("/dev/full", O_WRONLY);
  Console console(full);
  CHECK_NOTHROW(console.finish());
  console.print("text");
  CHECK_THROWS_AS(console.finish(), IoError);
  ::close(full);
}

}  // namespace kernbench::benches
