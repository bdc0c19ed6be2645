// Text of a user's as it may be shown: no terminal obeys it, and nobody reads it otherwise than it
// is.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kernbench {

// Escapes what cannot be seen or moves what can: control characters (\x1b, \n), bytes that are no
// UTF-8 (\xff), and characters of no width or that turn the direction of writing (\u{202e}).
std::string visible(std::string_view text);

// The same line by line: line ends stay.  For texts of ours that a user's have gone into.
std::string visible_lines(std::string_view text);

// As visible(), into a buffer: returns how much of it is used.  What does not fit is cut.
// Async-signal-safe.
std::size_t write_visible(std::string_view text, std::span<char> buffer) noexcept;

}  // namespace kernbench
