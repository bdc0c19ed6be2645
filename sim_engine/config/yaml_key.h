// The keys that a configuration file may have, as the code that reads the file asks for them.

#pragma once

#include <string>
#include <vector>

namespace kernbench {

struct YamlKey {
  std::string path;  // "sip.ucie.bandwidth"
  std::string type;  // "integer", "bandwidth", "time", "size", "frequency", "name", "text", "list"
  std::string unit;  // of the example in messages: "GB/s"; empty if the type has none
  std::string allowed;  // "1 to 4096", "ring_1d, torus_2d"; empty if the type says it
  std::string value;    // as the file has it; empty if it does not have the key
};

// Another value for a key: it replaces the file's, or is added to the file.
struct YamlChange {
  std::string path;
  std::vector<std::string> items;  // of a list; a scalar has one
  bool is_list = false;
};

}  // namespace kernbench
