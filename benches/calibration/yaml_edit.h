// Puts values into the text of a YAML file.  All else stays as it is written, comments too.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kernbench::benches::calibration {

struct PutValue {
  std::string name;     // of the key, for the comment
  std::string path;     // "sip.ucie.bandwidth", "protocols[1].LL.start"
  std::string text;     // as the file writes it
  std::string comment;  // stands in lines above, behind "# NAME: "
};

// A key that the file does not have is added to the map that it belongs to, or with the maps around
// it.  A comment that such a call has left for a key of that name is replaced.  Throws what
// YamlDocument::parse() does.  REQUIRES: elements of lists in a path are there
std::string put_values(std::string_view text, const std::string& file,
                       std::span<const PutValue> values);

}  // namespace kernbench::benches::calibration
