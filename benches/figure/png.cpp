#include "benches/figure/png.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "benches/bench/console.h"
#include "benches/bench/output_file.h"
#include "benches/figure/style.h"

namespace kernbench::benches::figure {

namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";

// A file without a name.  Unlike a pipe, it never makes the writer wait for the reader, so the
// converter's input and output can be handled one after the other.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("kernbench figure", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }

  // Returns an errno.  A reader of the descriptor then begins at the first byte.
  int write(std::string_view text) const {
    const int error = write_all(descriptor_, text);
    return error != 0 || ::lseek(descriptor_, 0, SEEK_SET) == 0 ? error : errno;
  }

  std::string content() const {
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

 private:
  int descriptor_;
};

// The settings with which a program is started: its standard streams, and no signal blocked or
// ignored.
class SpawnSettings {
 public:
  SpawnSettings(const MemoryFile& in, const MemoryFile& out, const MemoryFile& err) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_adddup2(&files_, in.descriptor(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, out.descriptor(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, err.descriptor(), STDERR_FILENO);
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

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string not_started(const std::string& converter, int error) {
  if (error != ENOENT) return fmt::format("'{}': {}", converter, std::strerror(error));
  return fmt::format("there is no '{}' here; Debian's package librsvg2-bin has it", converter);
}

// Waits for the converter; returns what went wrong with it, or an empty text.
std::string ending_of(pid_t child, const std::string& converter, const MemoryFile& err) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fmt::format("'{}': {}", converter, std::strerror(errno));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string said = first_line(err.content());
  const std::string how = WIFSIGNALED(status)
                              ? fmt::format("was ended by signal {}", WTERMSIG(status))
                              : fmt::format("exited with {}", WEXITSTATUS(status));
  return fmt::format("'{}' {}{}{}", converter, how, said.empty() ? "" : ": ", said);
}

}  // namespace

Png to_png(std::string_view svg, int width, const std::string& converter) {
  const MemoryFile in;
  const MemoryFile out;
  const MemoryFile err;
  for (const MemoryFile* file : {&in, &out, &err}) {
    if (file->descriptor() < 0) return {{}, fmt::format("memfd_create: {}", std::strerror(errno))};
  }
  if (const int error = in.write(svg)) return {{}, std::strerror(error)};
  const SpawnSettings settings(in, out, err);
  pid_t child = 0;
  const int error = settings.spawn(
      child, {converter, "--format=png", fmt::format("--width={}", width), "--keep-aspect-ratio"});
  if (error != 0) return {{}, not_started(converter, error)};
  std::string problem = ending_of(child, converter, err);
  std::string bytes = problem.empty() ? out.content() : "";
  if (problem.empty() && !bytes.starts_with(kSignature)) {
    bytes.clear();
    problem = fmt::format("'{}' gave no PNG", converter);
  }
  return {std::move(bytes), std::move(problem)};
}

std::string write_figure(const std::filesystem::path& stem, std::string_view svg,
                         const std::string& converter) {
  const std::string svg_name = stem.string() + ".svg";
  const std::string png_name = stem.string() + ".png";
  OutputFile(svg_name).commit(svg);
  const Png png = to_png(svg, static_cast<int>(2 * kPageWidth), converter);
  if (png.problem.empty()) {
    OutputFile(png_name).commit(png.bytes);
    return {};
  }
  std::error_code ignored;
  std::filesystem::remove(png_name, ignored);
  return fmt::format("{} is not written: {}", png_name, png.problem);
}

}  // namespace kernbench::benches::figure
