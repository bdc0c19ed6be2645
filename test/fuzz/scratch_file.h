// A file for a parser that reads nothing but files.  It lies in memory where the host has such a
// folder, as a journal is synced whenever it is written.

#pragma once

#include <filesystem>
#include <string_view>

namespace kernbench::fuzz {

// A folder of this process and of those that it forks, which goes when this process exits.
const std::filesystem::path& scratch_folder();

class ScratchFile {
 public:
  // Writes the text.
  ScratchFile(std::string_view name, std::string_view text);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kernbench::fuzz
