// Runs the built program as a user would, and a folder that is gone afterwards.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace kernbench::test {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal if one ended it
  std::string out;
  std::string err;
};

struct ProgramOptions {
  std::string program = KERNBENCH_PROGRAM;
  std::string folder = {};       // to run in
  long file_size_limit = -1;     // RLIMIT_FSIZE, in bytes
  int cpu_limit_s = -1;          // RLIMIT_CPU: one that loops for ever is ended
  bool close_stdout = false;     // stdout is a pipe that nobody reads
  std::string stdout_file = {};  // e.g. /dev/full; then `out` is empty
  double interrupt_after_s = -1;      // from when it watches for signals; less than 0: never
  int signal = SIGINT;                // that it is then sent
  int signal_count = 1;               // so many times in a row
  long address_space_limit_kib = -1;  // RLIMIT_AS, as `ulimit -v` takes it
  int descriptor_limit = -1;          // RLIMIT_NOFILE
  long stack_limit_kib = -1;          // RLIMIT_STACK, as `ulimit -s` takes it
  std::vector<std::pair<std::string, std::string>> environment = {};  // besides this process's
};

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const ProgramOptions& options = {});

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file; returns its path.
  std::string write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  // Names of what lies in it, in order.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);

// `text` with the first `from` replaced.  Fails the test if there is none.
std::string replaced(std::string text, const std::string& from, const std::string& to);

}  // namespace kernbench::test
