// For tests that edit a topology file's text.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim_engine/config/yaml_document.h"

namespace kernbench::test {

// Returns the folder of the shipped topologies.
std::filesystem::path topology_folder();

std::string to_text(const std::filesystem::path& path);

// A topology file that has every key, the optional ones too.
const std::string& complete_topology();

// The errors of a topology file "t.yaml"; "no error".
std::string topology_error_of(const std::string& text);

std::size_t offset_of(const std::string& text, TextMark mark);

// `node` and all below it, in file order.
std::vector<const YamlNode*> all_nodes(const YamlNode& node);

// `text` with the scalar at `path` replaced.
std::string with(const std::string& path, const std::string& value,
                 std::string text = complete_topology());

// The error after that replacement.  Checks its position, and leaves it out.
std::string error_at(const std::string& path, const std::string& value);

}  // namespace kernbench::test
