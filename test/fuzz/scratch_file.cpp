#include "test/fuzz/scratch_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <system_error>

namespace kernbench::fuzz {

namespace {

namespace fs = std::filesystem;

fs::path folder_for_scratch() {
  const fs::path in_memory = "/dev/shm";
  return fs::is_directory(in_memory) ? in_memory : fs::temp_directory_path();
}

struct Folder {
  Folder() : path(folder_for_scratch() / fmt::format("kernbench-fuzz-{}", ::getpid())) {
    fs::create_directories(path);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

const fs::path& scratch_folder() {
  static const Folder folder;
  return folder.path;
}

ScratchFile::ScratchFile(std::string_view name, std::string_view text)
    : path_(scratch_folder() / name) {
  std::ofstream stream(path_, std::ios::binary);
  stream << text;
  if (!stream.flush()) throw std::runtime_error("cannot write " + path_.string());
}

ScratchFile::~ScratchFile() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

}  // namespace kernbench::fuzz
