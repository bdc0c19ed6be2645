// Makes text from the user safe to show: it cannot control the terminal or look like other text.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kernbench {

// Escapes what is invisible or changes how the rest is displayed: control characters (\x1b, \n),
// bytes that are no UTF-8 (\xff), characters of zero width, and those that change the direction of
// writing (\u{202e}).
std::string visible(std::string_view text);

// Escapes each line and keeps the line ends.  For messages of kernbench that quote the user's text.
std::string visible_lines(std::string_view text);

// Like visible(), but writes into a buffer and returns the number of chars written; the rest of the
// text is dropped.  Async-signal-safe.
std::size_t write_visible(std::string_view text, std::span<char> buffer) noexcept;

}  // namespace kernbench
