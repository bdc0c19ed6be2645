// A file that lies in the program, as it was when the program was built.

#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace kernbench {

struct EmbeddedFile {
  std::string_view name;  // "default" is topologies/default.yaml
  std::string_view text;
};

// Returns nullptr if none has that name.
inline const EmbeddedFile* find_embedded_file(std::span<const EmbeddedFile> files,
                                              std::string_view name) {
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  return found == files.end() ? nullptr : &*found;
}

}  // namespace kernbench
