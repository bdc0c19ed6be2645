#include "test/benches/program_under_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

namespace kernbench::test {

namespace fs = std::filesystem;

namespace {

// Runs in the child, between fork and exec.
[[noreturn]] void become(const std::vector<std::string>& arguments, const ProgramOptions& options,
                         const std::string& out, const std::string& err) {
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  if (options.close_stdout) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(99);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  } else {
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  }
  if (options.file_size_limit >= 0) {
    const auto bytes = static_cast<rlim_t>(options.file_size_limit);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (options.cpu_limit_s >= 0) {
    const auto seconds = static_cast<rlim_t>(options.cpu_limit_s);
    const rlimit limit{seconds, seconds};
    ::setrlimit(RLIMIT_CPU, &limit);
  }
  if (options.address_space_limit_kib >= 0) {
    const auto bytes = static_cast<rlim_t>(options.address_space_limit_kib) * 1024;
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  if (options.stack_limit_kib >= 0) {
    const auto bytes = static_cast<rlim_t>(options.stack_limit_kib) * 1024;
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_STACK, &limit);
  }
  for (const auto& [name, value] : options.environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(99);
  std::vector<char*> argv = {const_cast<char*>("kernbench")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (options.descriptor_limit >= 0) {
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    const auto count = static_cast<rlim_t>(options.descriptor_limit);
    const rlimit limit{count, count};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ::signal(options.signal, SIG_DFL);  // shells ignore some in what they start in the background
  ::execv(options.program.c_str(), argv.data());
  ::_exit(99);
}

// Waits until the program has the thread that watches for signals, or has ended: how long a program
// takes to start depends on the machine, and one signalled before that ends without a word.
void wait_until_it_watches(pid_t child) {
  const fs::path file = fs::path("/proc") / std::to_string(child) / "status";
  for (int threads = 1; threads == 1;) {
    ::usleep(1'000);
    std::ifstream status(file);
    threads = 0;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("State:\tZ")) break;
      if (line.starts_with("Threads:")) threads = std::stoi(line.substr(line.find('\t')));
    }
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const ProgramOptions& options) {
  const TemporaryFolder folder;
  const std::string out = options.stdout_file.empty() ? folder.path("out") : options.stdout_file;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) become(arguments, options, out, folder.path("err"));
  if (options.interrupt_after_s >= 0) {
    wait_until_it_watches(child);
    ::usleep(static_cast<useconds_t>(options.interrupt_after_s * 1e6));
    for (int i = 0; i < options.signal_count; ++i) {
      ::kill(child, options.signal);
      ::usleep(2'000);  // so that they do not become one
    }
  }
  ProgramResult result;
  result.exit_code = wait_for(child);
  result.err = read_file(folder.path("err"));
  if (options.stdout_file.empty() && !options.close_stdout) result.out = read_file(out);
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "kernbench_test_XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return path(name);
}

std::string TemporaryFolder::read(const std::string& name) const {
  return read_file(path_ / name);
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace kernbench::test
