#include "benches/bench/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "benches/bench/split_list.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench::benches {

namespace {

[[noreturn]] void unknown_key(std::string_view key, std::span<const SettingInfo> known) {
  std::vector<std::string_view> keys;
  for (const SettingInfo& info : known) keys.push_back(info.key);
  throw UsageError("KB-U011", "--set: no setting is named {}{}", in_quotes(key),
                   suggestion(key, keys));
}

[[noreturn]] void wrong_value(std::string_view key, std::string_view why) {
  throw UsageError("KB-U012", "--set {}: {}", shown(key), why);
}

// Refuses control characters in a value: a line end would add a line to to_text(), which has one
// line per setting and identifies sweeps.
void check_characters(std::string_view key, std::string_view value) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (std::ranges::none_of(value, is_control)) return;
  wrong_value(key, fmt::format("{} has a control character; a value is one line of text",
                               in_quotes(value)));
}

// A number in binary units, as in "64Ki": its digits, and the power of two of its unit.
struct Scaled {
  std::string_view digits;
  int shift = 0;
};

Scaled split_unit(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, int>, 3> kUnits = {
      {{"Ki", 10}, {"Mi", 20}, {"Gi", 30}}};
  for (const auto& [unit, shift] : kUnits) {
    if (text.ends_with(unit)) return {text.substr(0, text.size() - unit.size()), shift};
  }
  return {text, 0};
}

std::int64_t parse(std::string_view key, std::string_view text, std::int64_t min,
                   std::int64_t max) {
  const Scaled scaled = split_unit(text);
  if (scaled.shift == 0) {
    const ParsedScalar parsed = parse_integer(text, min, max);
    if (!parsed.code.empty()) wrong_value(key, parsed.fault);
    return parsed.value;
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() >> scaled.shift;
  const ParsedScalar parsed = parse_integer(scaled.digits, 0, most);
  const std::int64_t value = parsed.value << scaled.shift;
  if (!parsed.code.empty() || value < min || value > max) {
    wrong_value(key, fmt::format("{} is no integer from {} to {}", in_quotes(text), min, max));
  }
  return value;
}

}  // namespace

std::string suggestion(std::string_view word, std::span<const std::string_view> names) {
  if (names.empty()) return "; there are none";
  const std::string_view meant = nearest(word, names);
  if (!meant.empty()) return fmt::format("; did you mean '{}'?", meant);
  return fmt::format("; there are: {}", fmt::join(names, ", "));
}

std::string_view name_of(SettingType type) {
  constexpr std::array<std::string_view, kSettingTypes.size()> kNames = {
      "any",  "integer", "number",           "size",         "flag",
      "name", "path",    "list of integers", "list of names"};
  return name_in(kNames, type);
}

Assignment parse_assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError("KB-U010", "--set wants key=value, not {}", in_quotes(text));
  }
  Assignment assignment{text.substr(0, equals), text.substr(equals + 1)};
  check_characters(assignment.key, assignment.value);
  return assignment;
}

Settings::Settings(std::span<const SettingInfo> known, std::span<const std::string> assignments) {
  for (const SettingInfo& info : known) fallbacks_.emplace(info.key, info.fallback);
  for (const std::string& text : assignments) {
    const auto [key, value] = parse_assignment(text);
    if (!fallbacks_.contains(key)) unknown_key(key, known);
    if (!given_.emplace(key, value).second) {
      throw UsageError("KB-U010", "--set gives {} twice", shown(key));
    }
  }
}

bool Settings::is_set(std::string_view key) const {
  return given_.contains(key);
}

const std::string& Settings::text(std::string_view key) const {
  if (const auto given = given_.find(key); given != given_.end()) return given->second;
  const auto fallback = fallbacks_.find(key);
  KB_CHECK(fallback != fallbacks_.end(), "the bench has not declared the setting '{}'", key);
  return fallback->second;
}

std::string Settings::to_text() const {
  std::string lines;
  for (const auto& [key, fallback] : fallbacks_) lines += fmt::format("{}={}\n", key, text(key));
  return lines;
}

std::int64_t Settings::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  return parse(key, text(key), min, max);
}

double Settings::number(std::string_view key, double min, double max) const {
  const std::string& given = text(key);
  double value = 0;
  const auto [stop, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  const bool is_number = error == std::errc() && stop == given.data() + given.size();
  if (is_number && value >= min && value <= max) return value;
  wrong_value(key,
              fmt::format("expected a number from {} to {}, got {}", min, max, in_quotes(given)));
}

std::vector<std::int64_t> Settings::integers(std::string_view key, std::int64_t min,
                                             std::int64_t max) const {
  std::vector<std::int64_t> values;
  for (const std::string_view value : list(key)) values.push_back(parse(key, value, min, max));
  return values;
}

Bytes Settings::bytes(std::string_view key, Bytes min, Bytes max) const {
  constexpr std::int64_t kMostDigits = 999'999'999;
  std::string_view plain = text(key);
  if (plain.ends_with("iB")) plain.remove_suffix(1);
  const auto [digits, shift] = split_unit(plain);
  const auto expected = [&](std::string_view found) {
    return fmt::format("expected bytes from {} to {}, such as 8, 64Ki or 64Mi, got {}", min, max,
                       in_quotes(found));
  };
  const ParsedScalar parsed = parse_integer(digits, 0, shift == 0 ? max : kMostDigits);
  if (!parsed.code.empty()) wrong_value(key, expected(text(key)));
  const Bytes value = parsed.value << shift;
  if (value < min || value > max) wrong_value(key, expected(text(key)));
  return value;
}

std::vector<std::string_view> Settings::list(std::string_view key) const {
  return split_list(fmt::format("--set {}={}", key, shown(text(key))), text(key));
}

std::vector<std::string_view> split_list(std::string_view option, std::string_view text) {
  std::vector<std::string_view> parts;
  std::set<std::string_view> seen;  // a command line has room for 24,000 values
  const auto refuse = [&](std::string_view why) {
    throw UsageError("KB-U012", "{}: {}", option, why);
  };
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const bool is_alone = parts.empty() && comma == std::string_view::npos;
    if (part.empty() && !is_alone) refuse("there is no value beside a comma");
    if (!seen.insert(part).second) refuse(in_quotes(part) + " is given twice");
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

bool Settings::flag(std::string_view key) const {
  constexpr std::array<std::string_view, 2> kNames = {"false", "true"};
  if (text(key) == "0" || text(key) == "1") return text(key) == "1";
  return find_index(key, text(key), kNames) == 1;
}

std::size_t Settings::find_index(std::string_view key, std::string_view name,
                                 std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    wrong_value(key, fmt::format("{} is not known{}", in_quotes(name), suggestion(name, names)));
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace kernbench::benches
