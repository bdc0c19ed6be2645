// The settings of a bench, given by --set key=value.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::benches {

// The form of a setting's values.
enum class SettingType : std::uint8_t {
  any,  // not told: it may be a list
  integer,
  number,
  size,  // of bytes
  flag,
  name,
  path,
  integers,  // a list, separated by commas
  names,     // likewise
};

inline constexpr std::array kSettingTypes = {
    SettingType::any,  SettingType::integer,  SettingType::number,
    SettingType::size, SettingType::flag,     SettingType::name,
    SettingType::path, SettingType::integers, SettingType::names};
std::string_view name_of(SettingType type);

// A setting that a bench declares.
struct SettingInfo {
  std::string key;
  std::string fallback;  // its value if --set does not give it
  std::string help;
  SettingType type = SettingType::any;  // of other types than lists --set takes several values
};

// "key=value" of the command line.
struct Assignment {
  std::string key;
  std::string value;

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Throws UsageError KB-U010 if `text` has another form, KB-U012 for a value with a line end or
// another control character.
Assignment parse_assignment(const std::string& text);

// Values by key, read with the type that the bench wants.  A getter throws UsageError KB-U012,
// which says what would be right.  REQUIRES: the bench has declared the key
class Settings {
 public:
  // `assignments` are texts "key=value".  Throws UsageError KB-U010 if one has another form, or a
  // key twice, KB-U011 for a key that is not in `known`, with the nearest one that is, and KB-U012
  // for a value with a line end or another control character.
  explicit Settings(std::span<const SettingInfo> known,
                    std::span<const std::string> assignments = {});

  // True if --set gave the key.
  bool is_set(std::string_view key) const;

  const std::string& text(std::string_view key) const;
  // All settings with their values in force, one "key=value" per line, sorted by key.
  std::string to_text() const;
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  // "2", "1.25".
  double number(std::string_view key, double min, double max) const;
  // "1024,4096": one or more, separated by commas.
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min,
                                     std::int64_t max) const;
  // Integers may end in Ki, Mi or Gi.  A number of bytes: "8", "64Ki", "64MiB", "1Gi".  The value
  // is below 2^53.
  Bytes bytes(std::string_view key, Bytes min, Bytes max) const;
  // "true" or "false"; also "1" or "0".
  bool flag(std::string_view key) const;
  // The texts between the commas.
  std::vector<std::string_view> list(std::string_view key) const;
  // One of `values` by its name_of().
  template <class Enum, std::size_t n>
  Enum choice(std::string_view key, const std::array<Enum, n>& values) const {
    std::array<std::string_view, n> names;
    for (std::size_t i = 0; i < n; ++i) names[i] = name_of(values[i]);
    return values[find_index(key, text(key), names)];
  }
  // "tcm,hbm": one or more of `values`, separated by commas.
  template <class Enum, std::size_t n>
  std::vector<Enum> choices(std::string_view key, const std::array<Enum, n>& values) const {
    std::array<std::string_view, n> names;
    for (std::size_t i = 0; i < n; ++i) names[i] = name_of(values[i]);
    std::vector<Enum> chosen;
    for (const std::string_view name : list(key)) {
      chosen.push_back(values[find_index(key, name, names)]);
    }
    return chosen;
  }

 private:
  static std::size_t find_index(std::string_view key, std::string_view name,
                                std::span<const std::string_view> names);

  std::map<std::string, std::string, std::less<>> fallbacks_;
  std::map<std::string, std::string, std::less<>> given_;
};

// "; did you mean 'x'?", or if nothing is near: "; there are: x, y".
std::string suggestion(std::string_view word, std::span<const std::string_view> names);

}  // namespace kernbench::benches
