// fmt::print("{}", time): a Time as to_string() writes it, with the width and alignment of texts.

#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench {

// Formats to_string(time) with a format specification of fmt for texts, e.g. ">12".  Throws
// fmt::format_error if the specification is invalid.
std::string to_string(Time time, std::string_view specification);

}  // namespace kernbench

template <>
struct fmt::formatter<kernbench::Time> {
  constexpr auto parse(fmt::format_parse_context& context) {
    auto end = context.begin();
    while (end != context.end() && *end != '}') ++end;
    specification_ =
        std::string_view(context.begin(), static_cast<std::size_t>(end - context.begin()));
    return end;
  }

  template <class FormatContext>
  auto format(kernbench::Time time, FormatContext& context) const {
    const std::string text = kernbench::to_string(time, specification_);
    auto out = context.out();
    for (const char c : text) *out++ = c;
    return out;
  }

 private:
  std::string_view specification_;
};
