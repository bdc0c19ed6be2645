#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim_engine/base/config_errors.h"

namespace kernbench {

struct TextFault {
  TextMark mark;
  std::string text;
};

// The first character that a configuration file may not have: not UTF-8, a control character, a
// tab (YAML forbids it where it would be indentation, and elsewhere one cannot see it).
std::optional<TextFault> find_bad_character(std::string_view text);

}  // namespace kernbench
