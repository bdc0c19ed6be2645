// Codes of errors as text for people: on a terminal, and as the page error-codes.md.

#pragma once

#include <string>

#include "benches/errors/error_codes.h"

namespace kernbench::benches::errors {

// Writes all codes by their letters, each with its exit code and its meaning.
std::string list_error_codes();

// Writes one code in full.
std::string describe(const ErrorCode& code);

// Writes all codes in full, in Markdown.
std::string write_error_page();

}  // namespace kernbench::benches::errors
