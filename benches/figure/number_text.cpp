#include "benches/figure/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace kernbench::benches::figure {

namespace {

std::string without_trailing_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string superscript(int number) {
  constexpr std::array<std::string_view, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                        "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = number < 0 ? "⁻" : "";
  for (const char digit : fmt::format("{}", std::abs(number))) {
    text += kDigits.at(static_cast<std::size_t>(digit - '0'));
  }
  return text;
}

// The number of decimals for `significant` digits; 0 if there are as many before the point.
int decimals_for(double value, int significant) {
  if (value == 0) return 0;
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return std::clamp(significant - 1 - exponent, 0, 12);
}

struct Scaled {
  std::string number;
  std::string_view prefix;
};

Scaled scaled_by_1024(double value) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 1024 && prefix + 1 < kPrefixes.size()) {
    value /= 1024;
    ++prefix;
  }
  return {without_trailing_zeros(fixed_text(value, 2)), kPrefixes[prefix]};
}

}  // namespace

std::string fixed_text(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') text.erase(0, 1);
  const auto first = static_cast<std::ptrdiff_t>(text.front() == '-' ? 1 : 0);
  const auto point = static_cast<std::ptrdiff_t>(std::min(text.find('.'), text.size()));
  for (auto at = point - 3; at > first; at -= 3) text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string short_text(double value) {
  return fixed_text(value, decimals_for(value, 3));
}

std::string rounded_text(double value) {
  return without_trailing_zeros(fixed_text(value, decimals_for(value, 4)));
}

std::string plain_text(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size >= 1e6 || size < 1e-4)) {
    const int exponent = static_cast<int>(std::floor(std::log10(size)));
    const double mantissa = value / std::pow(10.0, exponent);
    const std::string power = "10" + superscript(exponent);
    return mantissa == 1 ? power : fmt::format("{:.3g}×{}", mantissa, power);
  }
  return without_trailing_zeros(fixed_text(value, decimals_for(value, 6)));
}

std::string binary_text(double value) {
  const auto [number, prefix] = scaled_by_1024(value);
  return prefix.empty() ? number : fmt::format("{} {}", number, prefix);
}

std::string bytes_text(double value) {
  const auto [number, prefix] = scaled_by_1024(value);
  return fmt::format("{} {}B", number, prefix);
}

}  // namespace kernbench::benches::figure
