// All codes of errors and warnings, as data: what each means, and what to do (ADR-0104).

#pragma once

#include <span>
#include <string_view>

#include "sim_engine/base/error.h"

namespace kernbench::benches::errors {

struct ErrorCode {
  std::string_view code;        // "KB-C002"
  ExitCode exit_code;           // ok: a warning, which ends nothing
  std::string_view meaning;     // a sentence, in which names stand in backticks
  std::string_view cure;        // likewise
  std::string_view exits = {};  // in words, if `exit_code` is one of several
};

// The codes that have a letter in common.
struct ErrorFamily {
  char letter;
  std::string_view subject;          // what the letter stands for
  std::span<const ErrorCode> codes;  // in ascending order
};

// In the order of their letters.
std::span<const ErrorFamily> error_families();

// Finds "KB-C002", also as "c002".  Throws UsageError KB-U020 if there is no such code.
const ErrorCode& find_error_code(std::string_view word);

}  // namespace kernbench::benches::errors
