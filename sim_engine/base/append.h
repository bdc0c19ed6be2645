// fmt::format_to() and fmt::format_to_n(), compiled once: each file that calls fmt's own compiles
// all of fmt's formatter, three seconds (ADR-0170).

#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <span>
#include <string>

namespace kernbench {

void append_arguments(std::string& out, fmt::string_view format, fmt::format_args arguments);

// Returns the number of chars written; the rest of the text is dropped.  It allocates nothing:
// handlers of signals call it.
std::size_t format_arguments_into(std::span<char> out, fmt::string_view format,
                                  fmt::format_args arguments);

template <class... Arguments>
void append(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  append_arguments(out, format, fmt::make_format_args(arguments...));
}

template <class... Arguments>
std::size_t format_into(std::span<char> out, fmt::format_string<Arguments...> format,
                        Arguments&&... arguments) {
  return format_arguments_into(out, format, fmt::make_format_args(arguments...));
}

}  // namespace kernbench
