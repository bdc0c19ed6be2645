#include "benches/figure/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace kernbench::benches::figure {

namespace {

// Writes a number with commas between thousands and no trailing zeros: "1,250", "0.5".
std::string text_with(int decimals, double value) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) text.erase(std::min(text.find_last_not_of('0'), text.size()) + 1);
  if (text.back() == '.') text.pop_back();
  const auto point = static_cast<std::ptrdiff_t>(std::min(text.find('.'), text.size()));
  for (auto at = point - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

}  // namespace

std::string rounded_text(double value) {
  const int exponent = value == 0 ? 3 : static_cast<int>(std::floor(std::log10(value)));
  return text_with(std::clamp(3 - exponent, 0, 12), value);
}

std::string bytes_text(double value) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t prefix = 0;
  while (value >= 1024 && prefix + 1 < kPrefixes.size()) {
    value /= 1024;
    ++prefix;
  }
  return fmt::format("{} {}B", text_with(2, value), kPrefixes[prefix]);
}

}  // namespace kernbench::benches::figure
