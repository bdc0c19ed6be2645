#include "sim_engine/config/yaml_text.h"

#include <fmt/format.h>

namespace kernbench {

namespace {

// Length of the UTF-8 sequence that `text` starts with; 0 if it starts with none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool above_unicode = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || above_unicode ? 0 : length;
}

// Says what is wrong with the character at the start of `text`; empty if nothing is.
std::string find_fault(std::string_view text, std::size_t length) {
  const auto first = static_cast<unsigned char>(text.front());
  if (length == 0) return fmt::format("not UTF-8: byte 0x{:02x}", first);
  if (first == '\t') return "a tab; indent and separate with spaces";
  if (first == 0) return "a NUL byte; this is not a text file";
  const bool is_control = (first < ' ' && first != '\n' && first != '\r') || first == 0x7f;
  return is_control ? fmt::format("control character 0x{:02x}", first) : "";
}

}  // namespace

std::optional<TextFault> find_bad_character(std::string_view text) {
  TextMark mark;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (std::string fault = find_fault(text, length); !fault.empty()) {
      return TextFault{mark, std::move(fault)};
    }
    if (text.front() == '\n') {
      mark = {mark.line + 1, 1};
    } else {
      mark.column += static_cast<int>(length);
    }
    text.remove_prefix(length);
  }
  return std::nullopt;
}

}  // namespace kernbench
