#include "benches/calibration/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "sim_engine/base/error.h"

namespace kernbench::benches::calibration {

namespace {

constexpr std::string_view kOption = "--fit";
constexpr int kDigits = 5;

// The value that the first machine has without a fit.
std::optional<double> find_given(const Machine& machine, const variants::Range& range) {
  const auto set = std::ranges::find(machine.as_given.fixed, range.key->name, &Assignment::key);
  return range.find_value(set == machine.as_given.fixed.end() ? range.key->value : set->value);
}

double find_start(const Machine& machine, const variants::Range& range) {
  const std::optional<double> given = find_given(machine, range);
  if (given && *given >= range.low && *given <= range.high) return *given;
  return range.low > 0 ? std::sqrt(range.low * range.high) : (range.low + range.high) / 2;
}

void check_end(const Machine& machine, const std::vector<Parameter>& parameters,
               const Parameter& parameter, double end) {
  Texts texts;
  for (const Parameter& one : parameters) {
    texts.push_back(one.text_at(&one == &parameter ? end : one.start));
  }
  try {
    make_variant(machine, parameters, texts);
  } catch (const Error& error) {
    throw UsageError("KB-U012", "{} {}={}..{}: the value {} cannot be simulated: {}", kOption,
                     parameter.name(), parameter.show(parameter.range.low),
                     parameter.show(parameter.range.high), parameter.text_at(end), error.what());
  }
}

// "KEY+KEY=LOW..HIGH", of which a range names the first key alone.
struct Joined {
  std::string range;
  std::vector<std::string> others = {};
};

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) c == separator ? void(parts.emplace_back()) : parts.back().push_back(c);
  return parts;
}

std::vector<Joined> list_joined(const std::vector<std::string>& texts) {
  std::vector<Joined> all;
  for (const std::string& text : texts) {
    for (const std::string& range : split_at(text, ',')) {
      const std::size_t equals = std::min(range.find('='), range.size());
      std::vector<std::string> names = split_at(range.substr(0, equals), '+');
      all.push_back({names.front() + range.substr(equals), {names.begin() + 1, names.end()}});
    }
  }
  return all;
}

Parameter make_parameter(const Machine& first, const variants::Range& range, const Joined& joined) {
  Parameter parameter{.range = range, .keys = {range.key->name}, .start = find_start(first, range)};
  for (const std::string& other : joined.others) {
    const variants::Key& key = first.maker.keys().find_ending(kOption, other);
    if (key.type != range.key->type) {
      throw UsageError("KB-U012", "{}: {} is a {} and {} a {}: keys that + joins have one value",
                       kOption, range.key->name, range.key->type, key.name, key.type);
    }
    parameter.keys.push_back(key.name);
  }
  return parameter;
}

// Refuses a key that two parameters, or one twice, would give values to.
void check_keys_differ(const std::vector<Parameter>& parameters) {
  std::set<std::string> seen;
  for (const Parameter& parameter : parameters) {
    for (const std::string& key : parameter.keys) {
      if (!seen.insert(key).second)
        throw UsageError("KB-U021", "{}: {} has two ranges", kOption, key);
    }
  }
}

}  // namespace

std::string Parameter::name() const {
  return fmt::format("{}", fmt::join(keys, "+"));
}

double Parameter::to_coordinate(double value) const {
  return range.low > 0 ? std::log(value) : (value - range.low) / (range.high - range.low);
}

double Parameter::to_value(double coordinate) const {
  return range.low > 0 ? std::exp(coordinate) : range.low + coordinate * (range.high - range.low);
}

std::string Parameter::text_at(double value) const {
  if (is_switch() || value == 0) return range.at(value).value;
  const double scale = std::pow(10, kDigits - 1 - std::floor(std::log10(std::abs(value))));
  return range.at(std::round(value * scale) / scale).value;
}

double Parameter::value_of(const std::string& text) const {
  return range.find_value(text).value();
}

std::string Parameter::show(double value) const {
  constexpr double kWhole = 1000;
  if (range.is_whole || !(value >= kWhole && std::isfinite(value))) return range.show(value);
  return fmt::format("{:.0f}{}{}", value, range.unit.empty() ? "" : " ", range.unit);
}

std::vector<Parameter> read_parameters(const Calibration& calibration,
                                       const std::vector<std::string>& texts) {
  const Machine& first = calibration.machines.front();
  const std::vector<Joined> all = list_joined(texts);
  std::vector<std::string> range_texts;
  for (const Joined& joined : all) range_texts.push_back(joined.range);
  const auto ranges = variants::parse_ranges(kOption, range_texts, first.maker.keys());
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    parameters.push_back(make_parameter(first, ranges[i], all[i]));
  }
  check_keys_differ(parameters);
  for (const Machine& machine : calibration.machines) {
    for (const Parameter& one : parameters) {
      for (const std::string& key : one.keys) machine.maker.keys().find_ending(kOption, key);
      if (one.is_switch()) continue;  // ends of one may stand behind another's value
      check_end(machine, parameters, one, one.range.low);
      check_end(machine, parameters, one, one.range.high);
    }
  }
  return parameters;
}

variants::Variant make_variant(const Machine& machine, const std::vector<Parameter>& parameters,
                               const Texts& texts) {
  std::vector<variants::Choice> choices;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const std::string& key : parameters[i].keys) {
      choices.push_back({&machine.maker.keys().find(key), texts[i]});
    }
  }
  variants::Variant variant = machine.maker.first(choices);
  const int ranks = variant.topology.system.sip_count;
  const int published = machine.as_given.topology.system.sip_count;
  if (ranks == published) return variant;
  throw UsageError("KB-U012", "{}: {} would have {} SIPs, and the rows of {} are those of {}",
                   kOption, machine.topology, ranks, machine.file, published);
}

}  // namespace kernbench::benches::calibration
