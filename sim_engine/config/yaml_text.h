#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim_engine/config/config_errors.h"

namespace kernbench {

struct TextFault {
  TextMark mark;
  std::string text;
};

// Finds the first character that a configuration file may not contain: invalid UTF-8, a control
// character, or a tab (YAML forbids tabs as indentation, and elsewhere they are invisible).
std::optional<TextFault> find_bad_character(std::string_view text);

}  // namespace kernbench
