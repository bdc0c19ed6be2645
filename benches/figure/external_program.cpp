#include "benches/figure/external_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "benches/bench/console.h"

namespace kernbench::benches::figure {

namespace {

// The settings with which a program is started: it reads nothing, says all into one file, inherits
// the given files under the numbers that they have here, and no signal is blocked or ignored.
class SpawnSettings {
 public:
  SpawnSettings(std::initializer_list<const MemoryFile*> files, const MemoryFile& said) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files_, said.descriptor(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, said.descriptor(), STDERR_FILENO);
    for (const MemoryFile* file : files) {
      ::posix_spawn_file_actions_adddup2(&files_, file->descriptor(), file->descriptor());
    }
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // Returns an errno.
  int spawn(pid_t& child, const std::vector<std::string>& arguments) const {
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.data()));
    argv.push_back(nullptr);
    return ::posix_spawnp(&child, argv.front(), &files_, &attributes_, argv.data(), environ);
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// Programs say last what made them give up.
std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.rfind('\n') + 1);
}

// Returns false if the program has not ended in this time, and has been ended therefore.
bool ends_within(pid_t child, std::chrono::milliseconds time) {
  using boost::system::error_code;
  // glibc 2.36 declares pidfd_open() for C alone.
  const auto ended = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (ended < 0) return true;  // the host cannot tell, so waitpid() waits as long as it takes
  bool is_late = false;
  boost::asio::io_context loop;
  boost::asio::posix::stream_descriptor end(loop, ended);
  boost::asio::steady_timer limit(loop, time);
  end.async_wait(end.wait_read, [&](const error_code&) { limit.cancel(); });
  limit.async_wait(
      [&](const error_code& error) { is_late = !error && ::kill(child, SIGKILL) == 0; });
  loop.run();
  return !is_late;
}

// Waits for the program; returns what went wrong with it, or an empty text.
std::string wait_for_end(pid_t child, const std::string& program, const MemoryFile& said,
                         std::chrono::milliseconds limit) {
  const bool is_late = !ends_within(child, limit);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fmt::format("'{}': {}", program, std::strerror(errno));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (is_late) return fmt::format("'{}' did not end within {} ms", program, limit.count());
  const std::string last = last_line(said.content());
  const std::string how = WIFSIGNALED(status)
                              ? fmt::format("was ended by signal {}", WTERMSIG(status))
                              : fmt::format("exited with {}", WEXITSTATUS(status));
  return fmt::format("'{}' {}{}{}", program, how, last.empty() ? "" : ": ", last);
}

}  // namespace

// A number above those of the standard streams, which the program has of its own.
MemoryFile::MemoryFile(std::string_view content) : descriptor_(-1) {
  const int made = ::memfd_create("kernbench figure", MFD_CLOEXEC);
  if (made < 0) return;
  descriptor_ = ::fcntl(made, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(made);
  if (descriptor_ < 0 || write_all(descriptor_, content) == 0) return;
  ::close(std::exchange(descriptor_, -1));
}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string MemoryFile::path() const {
  return fmt::format("/dev/fd/{}", descriptor_);
}

std::string MemoryFile::content() const {
  std::string result;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t count =
        ::pread(descriptor_, block.data(), block.size(), static_cast<off_t>(result.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return result;
    result.append(block.data(), static_cast<std::size_t>(count));
  }
}

std::string run_program(const std::vector<std::string>& arguments,
                        std::initializer_list<const MemoryFile*> files, std::string_view package,
                        std::chrono::milliseconds limit) {
  const std::string& program = arguments.front();
  const MemoryFile said;
  bool has_all = said.descriptor() >= 0;
  for (const MemoryFile* file : files) has_all = has_all && file->descriptor() >= 0;
  if (!has_all) return "the host gives no more files or memory";
  pid_t child = 0;
  const int error = SpawnSettings(files, said).spawn(child, arguments);
  if (error == 0) return wait_for_end(child, program, said, limit);
  if (error != ENOENT) return fmt::format("'{}': {}", program, std::strerror(error));
  return fmt::format("there is no '{}' here; Debian's package {} has it", program, package);
}

}  // namespace kernbench::benches::figure
