#include "benches/variants/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

#include "benches/bench/inputs.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::string_view kBetween = "..";
constexpr std::int64_t kMostExact = std::int64_t{1} << 53;  // as a double

std::string_view stripped(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// The kind of the key's values; nullopt if they have no units.
std::optional<Quantity> find_quantity(const Key& key) {
  const std::array kinds = {time_quantity(),       bytes_quantity(0, std::int64_t{1} << 40),
                            bandwidth_quantity(),  frequency_quantity(),
                            share_quantity(),      operation_energy_quantity(),
                            byte_energy_quantity()};
  const auto* const found = std::ranges::find(kinds, key.type, &Quantity::kind);
  return found == kinds.end() ? std::nullopt : std::optional(*found);
}

const QuantityUnit& unit_named(const Quantity& quantity, std::string_view name) {
  return *std::ranges::find(quantity.units, name, &QuantityUnit::name);
}

// A range as it is written, for messages.
struct Written {
  std::string_view option;
  std::string_view text;  // "sip_link.latency=250..900ns"
  const Key* key = nullptr;
  std::string low = {};
  std::string high = {};
};

[[noreturn]] void refuse_form(std::string_view option, std::string_view text,
                              std::string_view why) {
  throw UsageError("KB-U021", "{} {}: {}", option, in_quotes(text), why);
}

[[noreturn]] void refuse_value(const Written& written, std::string_view why) {
  throw UsageError("KB-U012", "{} {}: {}", written.option, in_quotes(written.text), why);
}

[[noreturn]] void refuse_end(const Written& written, bool is_low, std::string_view why) {
  refuse_value(written, fmt::format("the {} end: {}", is_low ? "low" : "high", why));
}

// An end of a range: "900ns" is 900 of the unit "ns".
struct EndText {
  std::string number;
  std::string unit;
};

EndText split_end(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("-0123456789."), text.size());
  return {std::string(text.substr(0, end)), std::string(stripped(text.substr(end)))};
}

// The unit of one end is the other's too if that has none.
void share_unit(Written& written) {
  EndText low = split_end(written.low);
  EndText high = split_end(written.high);
  if (low.unit.empty()) low.unit = high.unit;
  if (high.unit.empty()) high.unit = low.unit;
  const auto join = [](const EndText& end) {
    return with_spaced_unit(end.number + (end.unit.empty() ? "" : " " + end.unit));
  };
  if (!low.number.empty()) written.low = join(low);
  if (!high.number.empty()) written.high = join(high);
}

Written split_range(std::string_view option, std::string_view text, const Keys& keys) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    refuse_form(option, text, "expected KEY=LOW..HIGH, such as sip_link.latency=250..900ns");
  }
  Written written{option, text, &keys.find_ending(option, stripped(text.substr(0, equals)))};
  const std::string_view values = text.substr(equals + 1);
  const std::size_t between = values.find(kBetween);
  if (between == std::string_view::npos) {
    refuse_form(option, text, "expected LOW..HIGH with two dots between, such as 250..900ns");
  }
  written.low = stripped(values.substr(0, between));
  written.high = stripped(values.substr(between + kBetween.size()));
  if (written.low.empty() || written.high.empty()) {
    refuse_form(option, text, "a range has two ends, such as 250..900ns");
  }
  for (const bool is_low : {true, false}) {
    if ((is_low ? written.low : written.high) == "unlimited") {
      refuse_end(written, is_low, "unlimited is no figure");
    }
  }
  return written;
}

std::int64_t parse_end(const Written& written, bool is_low, const Quantity& quantity) {
  const std::string& text = is_low ? written.low : written.high;
  const ParsedScalar parsed = parse_quantity(text, quantity);
  if (!parsed.code.empty()) refuse_end(written, is_low, parsed.fault);
  return parsed.value;
}

void check_ascends(const Written& written, double low, double high) {
  if (low < high) return;
  refuse_value(written, fmt::format("the low end {} is not below the high end {}",
                                    shown(written.low), shown(written.high)));
}

// The finest of the units that the ends have; of whole numbers, the largest one up to that in which
// both ends are.
QuantityUnit choose_unit(const Written& written, const Quantity& quantity, bool is_whole,
                         std::array<std::int64_t, 2> ends) {
  const QuantityUnit& low = unit_named(quantity, split_end(written.low).unit);
  const QuantityUnit& high = unit_named(quantity, split_end(written.high).unit);
  const QuantityUnit finest = low.scale < high.scale ? low : high;
  const auto fits = [&](const QuantityUnit& unit) {
    return std::ranges::all_of(ends, [&](std::int64_t end) { return end % unit.scale == 0; });
  };
  if (!is_whole || fits(finest)) return finest;
  QuantityUnit largest = quantity.units.front();
  for (const QuantityUnit& unit : quantity.units) {
    if (unit.scale < finest.scale && unit.scale > largest.scale && fits(unit)) largest = unit;
  }
  return largest;
}

Range quantity_range(Written written, const Quantity& quantity) {
  const bool is_of_bench = written.key->owner == KeyOwner::bench;  // a size in plain bytes
  share_unit(written);
  if (is_of_bench && split_end(written.high).unit.empty()) {
    written.low += " B";
    written.high += " B";
  }
  const std::int64_t low = parse_end(written, true, quantity);
  const std::int64_t high = parse_end(written, false, quantity);
  check_ascends(written, static_cast<double>(low), static_cast<double>(high));
  const bool is_whole = written.key->type == "size";
  const QuantityUnit unit = choose_unit(written, quantity, is_whole, {low, high});
  const auto scale = static_cast<double>(unit.scale);
  return {.key = written.key,
          .low = static_cast<double>(low) / scale,
          .high = static_cast<double>(high) / scale,
          .unit = std::string(unit.name),
          .is_whole = is_whole};
}

// The bounds that "1 to 4096" allows.
std::array<std::int64_t, 2> read_allowed(const Key& key) {
  std::array<std::int64_t, 2> bounds = {-kMostExact, kMostExact};
  const std::size_t between = key.allowed.find(" to ");
  if (between == std::string::npos) return bounds;
  const char* const text = key.allowed.data();
  std::from_chars(text, text + between, bounds[0]);
  std::from_chars(text + between + 4, text + key.allowed.size(), bounds[1]);
  return bounds;
}

Range integer_range(const Written& written) {
  const auto [least, most] = read_allowed(*written.key);
  const ParsedScalar low = parse_integer(written.low, least, most);
  if (!low.code.empty()) refuse_end(written, true, low.fault);
  const ParsedScalar high = parse_integer(written.high, least, most);
  if (!high.code.empty()) refuse_end(written, false, high.fault);
  Range range{.key = written.key,
              .low = static_cast<double>(low.value),
              .high = static_cast<double>(high.value),
              .is_whole = true};
  check_ascends(written, range.low, range.high);
  return range;
}

double parse_number_end(const Written& written, bool is_low) {
  const std::string& text = is_low ? written.low : written.high;
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && stop == text.data() + text.size();
  if (is_number && std::isfinite(value)) return value;
  refuse_end(written, is_low, fmt::format("expected a number, got {}", in_quotes(text)));
}

Range parse_range(std::string_view option, std::string_view text, const Keys& keys) {
  const Written written = split_range(option, text, keys);
  if (const auto quantity = find_quantity(*written.key)) return quantity_range(written, *quantity);
  if (written.key->type == "integer") return integer_range(written);
  if (written.key->type != "number") {
    refuse_form(
        option, text,
        fmt::format("{} is a {}, and a range is of a quantity or a number", written.key->name,
                    written.key->type == "any" ? "text" : written.key->type));
  }
  Range range{.key = written.key,
              .low = parse_number_end(written, true),
              .high = parse_number_end(written, false)};
  check_ascends(written, range.low, range.high);
  return range;
}

}  // namespace

Choice Range::at(double value) const {
  double inside = std::clamp(value, low, high);
  if (is_whole) inside = std::round(inside);
  const std::optional<Quantity> quantity = find_quantity(*key);
  if (!quantity && !is_whole) return {key, fmt::to_string(inside)};
  if (!quantity) return {key, fmt::to_string(std::llround(inside))};
  const double scale = static_cast<double>(unit_named(*quantity, unit).scale);
  const std::int64_t base = std::llround(inside * scale);
  if (key->owner == KeyOwner::bench) return {key, fmt::to_string(base)};
  return {key, format_quantity(base, unit, *quantity)};
}

std::optional<double> Range::find_value(std::string_view text) const {
  const std::optional<Quantity> quantity = find_quantity(*key);
  if (!quantity) {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && stop == text.data() + text.size();
    return is_number ? std::optional(value) : std::nullopt;
  }
  const bool has_unit = text.find_first_not_of("0123456789.") != std::string_view::npos;
  const ParsedScalar parsed =
      parse_quantity(with_spaced_unit(text) + (has_unit ? "" : " B"), *quantity);
  if (!parsed.code.empty() || text == "unlimited") return std::nullopt;
  return static_cast<double>(parsed.value) / static_cast<double>(unit_named(*quantity, unit).scale);
}

std::string Range::show(double value) const {
  const std::string number =
      is_whole ? fmt::to_string(std::llround(value)) : fmt::format("{:.4g}", value);
  return unit.empty() ? number : fmt::format("{} {}", number, unit);
}

std::vector<Range> parse_ranges(std::string_view option, const std::vector<std::string>& texts,
                                const Keys& keys) {
  std::vector<Range> ranges;
  for (const std::string_view text : texts) {
    std::string_view rest = text;
    while (true) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      const Range range = parse_range(option, stripped(rest.substr(0, end)), keys);
      const auto has_name = [&](const Range& one) { return one.key->name == range.key->name; };
      if (std::ranges::any_of(ranges, has_name)) {
        refuse_form(option, text, fmt::format("{} has two ranges", range.key->name));
      }
      ranges.push_back(range);
      if (end == rest.size()) break;
      rest.remove_prefix(end + 1);
    }
  }
  return ranges;
}

}  // namespace kernbench::benches::variants
