#include "sim_engine/config/yaml_scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench {

namespace {

constexpr std::string_view kWrongForm = "KB-Y011";
constexpr std::string_view kWrongValue = "KB-Y020";

constexpr std::int64_t kKilo = 1'000;
constexpr std::int64_t kMega = 1'000'000;
constexpr std::int64_t kGiga = 1'000'000'000;
constexpr std::int64_t kTera = 1'000'000'000'000;
constexpr std::int64_t kKibi = std::int64_t{1} << 10;
constexpr std::int64_t kMebi = std::int64_t{1} << 20;
constexpr std::int64_t kGibi = std::int64_t{1} << 30;
constexpr std::int64_t kTebi = std::int64_t{1} << 40;

constexpr std::array<QuantityUnit, 5> kTimeUnits = {
    {{"ps", 1}, {"ns", kKilo}, {"us", kMega}, {"ms", kGiga}, {"s", kTera}}};
constexpr std::array<QuantityUnit, 1> kShareUnits = {{{"%", 10'000}}};
constexpr std::array<QuantityUnit, 9> kByteUnits = {{{"B", 1},
                                                     {"KB", kKilo},
                                                     {"MB", kMega},
                                                     {"GB", kGiga},
                                                     {"TB", kTera},
                                                     {"KiB", kKibi},
                                                     {"MiB", kMebi},
                                                     {"GiB", kGibi},
                                                     {"TiB", kTebi}}};
constexpr std::array<QuantityUnit, 9> kBandwidthUnits = {{{"B/s", 1},
                                                          {"KB/s", kKilo},
                                                          {"MB/s", kMega},
                                                          {"GB/s", kGiga},
                                                          {"TB/s", kTera},
                                                          {"KiB/s", kKibi},
                                                          {"MiB/s", kMebi},
                                                          {"GiB/s", kGibi},
                                                          {"TiB/s", kTebi}}};
constexpr std::array<QuantityUnit, 4> kFrequencyUnits = {
    {{"Hz", 1}, {"kHz", kKilo}, {"MHz", kMega}, {"GHz", kGiga}}};

constexpr std::array<QuantityUnit, 2> kOperationEnergyUnits = {
    {{"fJ/FLOP", 1}, {"pJ/FLOP", kKilo}}};
constexpr std::array<QuantityUnit, 4> kByteEnergyUnits = {
    {{"fJ/B", 1}, {"fJ/bit", 8}, {"pJ/B", kKilo}, {"pJ/bit", 8 * kKilo}}};

// More digits than these are refused, so that 128 bits hold every product below:
// 10^18 * 2^40 < 2^127.
constexpr std::size_t kMaxDigits = 18;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t digit_count(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, is_digit);
  return static_cast<std::size_t>(end - text.begin());
}

// `text` from its first character that is no space.
std::string_view without_spaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

// REQUIRES: at most kMaxDigits digits
std::int64_t parse_digits(std::string_view digits) {
  std::int64_t value = 0;
  for (const char digit : digits) value = value * 10 + (digit - '0');
  return value;
}

ParsedScalar wrong_form(std::string fault) {
  return {.code = kWrongForm, .fault = std::move(fault)};
}

ParsedScalar wrong_value(std::string fault) {
  return {.code = kWrongValue, .fault = std::move(fault)};
}

// A decimal number and what follows it.
struct Number {
  bool is_well_formed = false;
  bool is_negative = false;
  std::string_view whole;     // digits before the point
  std::string_view fraction;  // digits after it, without trailing zeros
  std::string_view rest;

  bool is_zero() const {
    return fraction.empty() && std::ranges::all_of(whole, [](char c) { return c == '0'; });
  }
};

Number parse_number(std::string_view text) {
  Number number;
  number.is_negative = text.starts_with('-');
  if (number.is_negative) text.remove_prefix(1);
  number.whole = text.substr(0, digit_count(text));
  text.remove_prefix(number.whole.size());
  number.is_well_formed =
      !number.whole.empty() && (number.whole.size() == 1 || number.whole.front() != '0');
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    number.fraction = text.substr(0, digit_count(text));
    text.remove_prefix(number.fraction.size());
    number.is_well_formed = number.is_well_formed && !number.fraction.empty();
    // npos + 1 == 0: nothing but zeros.
    number.fraction = number.fraction.substr(0, number.fraction.find_last_not_of('0') + 1);
  }
  number.rest = text;
  if (number.is_negative && number.is_zero()) number.is_well_formed = false;  // -0
  return number;
}

// Writes `value` in the largest unit of which it is a whole number: "2 MiB", "1 s".
std::string in_units(std::int64_t value, const Quantity& quantity) {
  const QuantityUnit* best = &quantity.units.front();
  for (const QuantityUnit& unit : quantity.units) {
    if (value != 0 && value % unit.scale == 0 && unit.scale > best->scale) best = &unit;
  }
  return fmt::format("{} {}", value / best->scale, best->name);
}

ParsedScalar out_of_range(std::string_view text, const Quantity& quantity) {
  // A minimum that is less than the least unit reads as the zero that is just out of the range.
  const bool is_below_unit = quantity.min > 0 && quantity.min < quantity.units.front().scale;
  return wrong_value(fmt::format("{} not in {}{}, {}]{}", shown(text), is_below_unit ? '(' : '[',
                                 in_units(quantity.min, quantity), in_units(quantity.max, quantity),
                                 quantity.may_be_unlimited ? ", nor `unlimited`" : ""));
}

const QuantityUnit* find_unit(std::string_view name, const Quantity& quantity) {
  const auto found = std::ranges::find(quantity.units, name, &QuantityUnit::name);
  return found == quantity.units.end() ? nullptr : &*found;
}

std::vector<std::string_view> unit_names(const Quantity& quantity) {
  std::vector<std::string_view> names;
  for (const QuantityUnit& unit : quantity.units) names.push_back(unit.name);
  return names;
}

// `unit` is what stands after the number, spaces included.
ParsedScalar wrong_unit(std::string_view text, std::string_view unit, const Quantity& quantity) {
  const std::string_view name = without_spaces(unit);
  const std::vector<std::string_view> names = unit_names(quantity);
  if (name.empty()) {
    return wrong_form(
        fmt::format("{} needs a unit; there are: {}", in_quotes(text), fmt::join(names, ", ")));
  }
  if (find_unit(name, quantity) != nullptr) {
    const std::string_view number = text.substr(0, text.size() - unit.size());
    return wrong_form(fmt::format("{} needs one space before the unit; write '{} {}'",
                                  in_quotes(text), shown(number), name));
  }
  const std::string_view near = nearest(name, names);
  return wrong_form(fmt::format(
      "{} is no unit of {}; {}{}", in_quotes(name), quantity.name,
      near.empty() ? "there are: " : "did you mean ",
      near.empty() ? fmt::format("{}", fmt::join(names, ", ")) : fmt::format("'{}'?", near)));
}

ParsedScalar scaled(std::string_view text, const Number& number, const QuantityUnit& unit,
                    const Quantity& quantity) {
  if (number.is_negative || number.whole.size() > kMaxDigits) return out_of_range(text, quantity);
  if (number.fraction.size() > kMaxDigits) {
    return wrong_value(fmt::format("{} has more than {} decimals", shown(text), kMaxDigits));
  }
  Wide denominator = 1;
  for (std::size_t i = 0; i < number.fraction.size(); ++i) denominator *= 10;
  const Wide part = static_cast<Wide>(parse_digits(number.fraction)) * unit.scale;
  if (part % denominator != 0) {
    return wrong_value(fmt::format("{} is finer than {}", shown(text), quantity.finest));
  }
  const Wide value =
      static_cast<Wide>(parse_digits(number.whole)) * unit.scale + part / denominator;
  if (value < quantity.min || value > quantity.max) return out_of_range(text, quantity);
  return {.value = static_cast<std::int64_t>(value)};
}

}  // namespace

ParsedScalar parse_integer(std::string_view text, std::int64_t min, std::int64_t max) {
  const Number number = parse_number(text);
  const bool is_integer =
      number.is_well_formed && number.whole.size() + number.is_negative == text.size();
  if (!is_integer) {
    const bool has_zero = text.starts_with('0') && digit_count(text) == text.size();
    return wrong_form(fmt::format("expected an integer such as {}, got {}{}",
                                  std::clamp<std::int64_t>(4, min, max), in_quotes(text),
                                  has_zero ? ", which has a leading zero" : ""));
  }
  if (number.whole.size() <= kMaxDigits) {
    const std::int64_t magnitude = parse_digits(number.whole);
    const std::int64_t value = number.is_negative ? -magnitude : magnitude;
    if (value >= min && value <= max) return {.value = value};
  }
  if (min == max) return wrong_value(fmt::format("must be {}, not {}", min, shown(text)));
  return wrong_value(fmt::format("{} not in [{}, {}]", shown(text), min, max));
}

Quantity time_quantity() {
  return {.name = "a time",
          .example = "100 ns",
          .units = kTimeUnits,
          .finest = "1 ps",
          .min = 0,
          .max = kTera};
}

Quantity bytes_quantity(Bytes min, Bytes max) {
  return {.name = "a size",
          .example = "2 MiB",
          .units = kByteUnits,
          .finest = "1 B",
          .min = min,
          .max = max};
}

Quantity bandwidth_quantity() {
  return {.name = "a bandwidth",
          .example = "64 GB/s",
          .units = kBandwidthUnits,
          .finest = "1 B/s",
          .min = kMega,
          .max = 1000 * kTera,
          .may_be_unlimited = true};
}

Quantity frequency_quantity() {
  return {.name = "a frequency",
          .example = "1.5 GHz",
          .units = kFrequencyUnits,
          .finest = "1 Hz",
          .min = kMega,
          .max = kTera,
          .may_be_unlimited = true};
}

Quantity share_quantity() {
  return {.name = "a share",
          .example = "90 %",
          .units = kShareUnits,
          .finest = "0.0001 %",
          .min = Share::kWhole / 1000,
          .max = Share::kWhole};
}

Quantity operation_energy_quantity() {
  return {.name = "an energy per operation",
          .example = "0.4 pJ/FLOP",
          .units = kOperationEnergyUnits,
          .finest = "1 fJ/FLOP",
          .min = 0,
          .max = kMega};
}

Quantity byte_energy_quantity() {
  return {.name = "an energy per bit or byte",
          .example = "3.9 pJ/bit",
          .units = kByteEnergyUnits,
          .finest = "1 fJ/B",
          .min = 0,
          .max = 8 * kMega};
}

ParsedScalar parse_quantity(std::string_view text, const Quantity& quantity) {
  if (quantity.may_be_unlimited && text == "unlimited") {
    return {.value = Bandwidth::kUnlimited};
  }
  const Number number = parse_number(text);
  // The unit must be one word: "1e3 ns" and "0x10 ns" are no decimal numbers with a unit.
  const bool has_number =
      number.is_well_formed && without_spaces(number.rest).find(' ') == std::string_view::npos;
  if (!has_number) {
    return wrong_form(
        fmt::format("expected {} such as {}{}, got {}", quantity.name, quantity.example,
                    quantity.may_be_unlimited ? " or `unlimited`" : "", in_quotes(text)));
  }
  const bool has_one_space = number.rest.starts_with(' ');
  const QuantityUnit* unit = has_one_space ? find_unit(number.rest.substr(1), quantity) : nullptr;
  if (unit == nullptr) return wrong_unit(text, number.rest, quantity);
  return scaled(text, number, *unit, quantity);
}

std::string format_quantity(std::int64_t value, std::string_view unit, const Quantity& quantity) {
  const std::int64_t scale = find_unit(unit, quantity)->scale;
  std::string text = fmt::to_string(value / scale);
  Wide rest = value % scale;
  if (rest != 0) text += '.';
  for (std::size_t digits = 0; rest != 0; ++digits, rest %= scale) {
    if (digits == kMaxDigits) return format_quantity(value, quantity.units.front().name, quantity);
    rest *= 10;
    text += fmt::to_string(static_cast<std::int64_t>(rest / scale));
  }
  return fmt::format("{} {}", text, unit);
}

}  // namespace kernbench
