#include "sim_engine/base/visible_text.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace kernbench {

namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t length = 1;  // in bytes
  bool is_valid = false;   // UTF-8
};

struct LeadByte {
  std::uint8_t mask;
  std::uint8_t value;
  std::size_t length;
  std::uint32_t least;  // shorter forms exist below it
};
constexpr std::array<LeadByte, 4> kLeadBytes = {
    {{0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}}};

Character decode(std::string_view text) noexcept {
  const auto first = static_cast<std::uint8_t>(text.front());
  const auto* lead = std::ranges::find_if(
      kLeadBytes, [&](const LeadByte& one) { return (first & one.mask) == one.value; });
  if (lead == kLeadBytes.end() || text.size() < lead->length) return {first};
  std::uint32_t code = first & static_cast<std::uint8_t>(~lead->mask);
  for (std::size_t i = 1; i < lead->length; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return {first};
    code = code << 6 | (byte & 0x3F);
  }
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < lead->least || code > 0x10FFFF || is_surrogate) return {first};
  return {code, lead->length, true};
}

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};
// Unicode's control and format characters, blank letters, variation selectors and tags.
constexpr std::array<Range, 24> kUnseen = {
    {{0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},       {0x034F, 0x034F},   {0x0600, 0x0605},
     {0x061C, 0x061C}, {0x06DD, 0x06DD}, {0x070F, 0x070F},   {0x115F, 0x1160},   {0x17B4, 0x17B5},
     {0x180B, 0x180F}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},   {0x2800, 0x2800},
     {0x3164, 0x3164}, {0xE000, 0xF8FF}, {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
     {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF}}};

bool is_unseen(std::uint32_t code) noexcept {
  const auto* range = std::ranges::lower_bound(kUnseen, code, {}, &Range::last);
  return range != kUnseen.end() && code >= range->first;
}

// Shows a character: itself, or its escape, of at most 10 bytes.
class Shown {
 public:
  Shown(std::string_view text, const Character& character) noexcept {
    if (character.is_valid && !is_unseen(character.code)) {
      for (const char c : text.substr(0, character.length)) add(c);
      return;
    }
    add('\\');
    if (character.code == '\n' || character.code == '\t') {
      add(character.code == '\n' ? 'n' : 't');
    } else if (character.code < 0x100 && character.length == 1) {
      add('x');
      add_digits(character.code, 2);
    } else {
      add('u');
      add('{');
      add_digits(character.code, 1);
      add('}');
    }
  }

  std::string_view text() const noexcept { return {bytes_.data(), length_}; }

 private:
  void add(char c) noexcept { bytes_[length_++] = c; }
  void add_digits(std::uint32_t code, int least) noexcept {
    int count = least;
    while (count < 6 && code >> (4 * count) != 0) ++count;
    while (count-- > 0) add("0123456789abcdef"[code >> (4 * count) & 0xF]);
  }

  std::array<char, 12> bytes_;
  std::size_t length_ = 0;
};

template <class Add>
void for_each_shown(std::string_view text, const Add& add) {
  while (!text.empty()) {
    const Character character = decode(text);
    if (!add(text.front(), Shown(text, character).text())) return;
    text.remove_prefix(character.length);
  }
}

}  // namespace

std::string visible(std::string_view text) {
  // Names of tensors and kernels are plain, and come with every launch.
  if (std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) {
    return std::string(text);
  }
  std::string result;
  for_each_shown(text, [&](char, std::string_view shown) {
    result += shown;
    return true;
  });
  return result;
}

std::string visible_lines(std::string_view text) {
  std::string result;
  for_each_shown(text, [&](char first, std::string_view shown) {
    first == '\n' ? result.push_back('\n') : static_cast<void>(result += shown);
    return true;
  });
  return result;
}

std::size_t write_visible(std::string_view text, std::span<char> buffer) noexcept {
  std::size_t length = 0;
  for_each_shown(text, [&](char, std::string_view shown) {
    if (shown.size() > buffer.size() - length) return false;
    std::ranges::copy(shown, buffer.data() + length);
    length += shown.size();
    return true;
  });
  return length;
}

}  // namespace kernbench
