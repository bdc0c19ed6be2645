#include "sim_engine/config/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "sim_engine/base/error.h"
#include "sim_engine/base/exception_text.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void cannot_read(const std::filesystem::path& path, const std::string& reason) {
  throw ConfigError("KB-I001", "cannot read '{}': {}", visible(path.string()), reason);
}

[[noreturn]] void cannot_read(const std::filesystem::path& path, int reason) {
  if (is_host_limit(std::error_code(reason, std::generic_category())) && reason != EAGAIN) {
    throw LimitError("KB-L003", "cannot read '{}': {}; close files, or raise `ulimit -n`",
                     visible(path.string()), std::generic_category().message(reason));
  }
  cannot_read(path, std::generic_category().message(reason));
}

void require_regular(const std::filesystem::path& path, int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) cannot_read(path, errno);
  if (S_ISDIR(status.st_mode)) cannot_read(path, EISDIR);
  if (!S_ISREG(status.st_mode)) cannot_read(path, "Not a regular file");
}

}  // namespace

std::string read_input_file(const std::filesystem::path& path, Bytes limit) {
  // O_NONBLOCK: opening a FIFO for reading would otherwise wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) cannot_read(path, errno);
  require_regular(path, file.get());
  std::string text;
  std::array<char, 65536> block;
  while (static_cast<Bytes>(text.size()) <= limit) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_read(path, errno);
    if (count == 0) break;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  if (static_cast<Bytes>(text.size()) > limit) text.resize(static_cast<std::size_t>(limit) + 1);
  return text;
}

}  // namespace kernbench
