// Runs a program that draws: gnuplot, rsvg-convert.
//
// Its files are in memory, so one that is interrupted leaves nothing behind.

#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::benches::figure {

// A file without a name in any folder.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content = {});
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }  // -1: the host has none to give
  // Its name for a program that run_program() gives it to.
  std::string path() const;
  std::string content() const;

 private:
  int descriptor_;
};

// Runs a program, which is searched for in PATH if it is a bare name, to its end.  Returns what
// went wrong with it, in one line; an empty text if it exited with 0.  `package` is Debian's
// package that has it.  A program that does not end within `limit` is ended.
std::string run_program(const std::vector<std::string>& arguments,
                        std::initializer_list<const MemoryFile*> files, std::string_view package,
                        std::chrono::milliseconds limit = std::chrono::minutes(1));

}  // namespace kernbench::benches::figure
