#include "runtime/profiler/written_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::runtime {

void write_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".part";
  const UnfinishedFile unfinished(temporary);
  std::ofstream file(temporary, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  std::error_code error;
  if (file) {
    std::filesystem::rename(temporary, path, error);
  } else {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  throw IoError("KB-I010", "'{}' cannot be written: {}", visible(path), error.message());
}

}  // namespace kernbench::runtime
