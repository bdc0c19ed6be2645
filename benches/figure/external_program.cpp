#include "benches/figure/external_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
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

// Waits for the program; returns what went wrong with it, or an empty text.
std::string wait_for_end(pid_t child, const std::string& program, const MemoryFile& said) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fmt::format("'{}': {}", program, std::strerror(errno));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
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
                        std::initializer_list<const MemoryFile*> files, std::string_view package) {
  const std::string& program = arguments.front();
  const MemoryFile said;
  bool has_all = said.descriptor() >= 0;
  for (const MemoryFile* file : files) has_all = has_all && file->descriptor() >= 0;
  if (!has_all) return "the host gives no more files or memory";
  pid_t child = 0;
  const int error = SpawnSettings(files, said).spawn(child, arguments);
  if (error == 0) return wait_for_end(child, program, said);
  if (error != ENOENT) return fmt::format("'{}': {}", program, std::strerror(error));
  return fmt::format("there is no '{}' here; Debian's package {} has it", program, package);
}

}  // namespace kernbench::benches::figure
