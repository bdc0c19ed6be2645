// Archives of uncompressed files, as numpy's .npz is one.

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kernbench::nn {

using ArchivedFile = std::pair<std::string, std::string>;  // name, bytes

// Throws IoError KB-I010 if it would exceed 4 GiB.
std::string zip_archive(const std::vector<ArchivedFile>& files, std::string_view path);

// Throws IoError KB-I013 for what is no archive, is compressed, or is damaged.  `path` is for
// messages.
std::vector<ArchivedFile> files_of_zip_archive(std::string_view archive, std::string_view path);

}  // namespace kernbench::nn
