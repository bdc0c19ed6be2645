#include "benches/figure/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace kernbench::benches::figure {

namespace {

constexpr char32_t kReplacement = U'\uFFFD';

// Advance widths of U+0020..U+007E in thousandths of the font size (DejaVu Sans 2.37).
constexpr std::array<int, 95> kAsciiWidths = {
    318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,  //
    636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,  //
    1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,  //
    603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,  //
    500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,  //
    635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};

// No letter of DejaVu Sans Bold is wider than this times its plain twin by more than a pixel or so.
constexpr double kBoldFactor = 1.12;

int width_of(char32_t code_point) {
  if (code_point < 0x20) return 0;
  if (code_point < 0x7F) return kAsciiWidths[code_point - 0x20];
  switch (code_point) {
    case U'\u00B2':  // superscript two
    case U'\u00B3':
    case U'\u00B9':
      return 401;
    case U'\u00A0':  // a blank that is not cut at
    case U'\u00B7':  // middle dot
      return 318;
    case U'\u00B5':  // micro sign
      return 636;
    case U'\u2013':  // en dash
      return 500;
    default:
      break;
  }
  if (code_point >= 0x2070 && code_point <= 0x2079) return 401;  // superscript digits
  if (code_point < 0x0250) return 700;                           // Latin
  return code_point < 0x1100 ? 800 : 1000;                       // Greek, symbols; Korean
}

bool is_continuation(char byte) {
  return (byte & 0xC0) == 0x80;
}

// The number of bytes that follow the first byte; -1 if no code point begins with it.
int continuation_count(unsigned char first) {
  if (first < 0x80) return 0;
  if (first < 0xC2 || first > 0xF4) return -1;
  if (first < 0xE0) return 1;
  return first < 0xF0 ? 2 : 3;
}

}  // namespace

char32_t take_code_point(std::string_view& rest) {
  constexpr std::array<char32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(rest.front());
  rest.remove_prefix(1);
  const int count = continuation_count(first);
  if (count <= 0) return count == 0 ? first : kReplacement;
  char32_t code_point = first & (0x3Fu >> count);
  for (int i = 0; i < count; ++i) {
    if (rest.empty() || !is_continuation(rest.front())) return kReplacement;
    code_point = code_point << 6 | (static_cast<unsigned char>(rest.front()) & 0x3Fu);
    rest.remove_prefix(1);
  }
  const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  const bool is_short = code_point < kLeast[static_cast<std::size_t>(count)];
  return is_surrogate || is_short || code_point > 0x10FFFF ? kReplacement : code_point;
}

double text_width(std::string_view text, double size, bool bold) {
  std::int64_t thousandths = 0;
  while (!text.empty()) thousandths += width_of(take_code_point(text));
  return static_cast<double>(thousandths) / 1000 * size * (bold ? kBoldFactor : 1);
}

double fitting_size(std::string_view text, double size, double width, bool bold) {
  const double needed = text_width(text, size, bold);
  return needed <= width ? size : size * width / needed;
}

std::vector<std::string> wrapped(std::string_view text, double size, double width, bool bold) {
  std::vector<std::string> lines = {""};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const std::string longer = lines.back().empty() ? word : lines.back() + ' ' + word;
    if (lines.back().empty() || text_width(longer, size, bold) <= width) {
      lines.back() = longer;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

}  // namespace kernbench::benches::figure
