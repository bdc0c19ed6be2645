// Lines that fit a terminal's window.

#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace kernbench {

inline constexpr std::size_t kLineWidth = 120;

// `text` in lines at most that long, cut at spaces; all but the first begin with `head`.  A word
// that is longer stays whole.
inline std::string wrapped(std::string_view text, std::string_view head) {
  std::string lines;
  for (std::size_t room = kLineWidth; text.size() > room; room = kLineWidth - head.size()) {
    const std::size_t first_word = text.find_first_not_of(' ');
    std::size_t space = text.rfind(' ', room);
    if (space == text.npos || space < first_word) space = text.find(' ', first_word);
    if (space == text.npos) break;
    lines += fmt::format("{}\n{}", text.substr(0, space), head);
    text.remove_prefix(space + 1);
  }
  return lines.append(text);
}

}  // namespace kernbench
