// A result file that either appears complete or not at all.
//
// It is opened under a temporary name before the work starts, so that a folder that cannot be
// written is found at once, and gets its own name when all has been written and synced.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sim_engine/base/unfinished_files.h"

namespace kernbench::benches {

class OutputFile {
 public:
  // "-" is stdout.  A file that is not regular (a pipe, a device) is written directly.  Removes
  // what processes that were killed have left of the same file.  Throws IoError KB-I010 if it
  // cannot be created.
  explicit OutputFile(const std::string& name);
  // Removes the file unless commit() was called.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  const std::string& name() const { return name_; }
  // The final path, with symbolic links resolved; empty if that is no regular file.
  std::filesystem::path regular_file() const {
    return is_regular_ ? path_ : std::filesystem::path();
  }

  // Throws IoError KB-I011 if the text cannot be written.  Call it once.
  void commit(std::string_view text);

 private:
  void open_temporary();
  [[noreturn]] void cannot_create(int error) const;
  void check(std::string_view text, int error) const;

  std::string name_;
  std::filesystem::path path_;  // without symbolic links
  bool is_regular_ = false;
  std::filesystem::path temporary_;  // empty if written directly, or done
  UnfinishedFile unfinished_;        // the temporary one
  int process_ = 0;                  // the process that made the file
  int descriptor_ = -1;
};

// Creates a folder for results, and those above it.  Throws IoError KB-I010.
void create_output_folder(const std::filesystem::path& folder);

}  // namespace kernbench::benches
