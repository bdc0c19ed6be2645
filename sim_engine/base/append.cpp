#include "sim_engine/base/append.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>

namespace kernbench {

void append_arguments(std::string& out, fmt::string_view format, fmt::format_args arguments) {
  fmt::vformat_to(std::back_inserter(out), format, arguments);
}

std::size_t format_arguments_into(std::span<char> out, fmt::string_view format,
                                  fmt::format_args arguments) {
  char* const end = fmt::vformat_to_n(out.data(), out.size(), format, arguments).out;
  return static_cast<std::size_t>(end - out.data());
}

}  // namespace kernbench
