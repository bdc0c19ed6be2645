#include "benches/bench/point_outcome.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "benches/bench/cell_text.h"
#include "benches/bench/content_hash.h"
#include "benches/bench/row_json.h"

namespace kernbench::benches {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kHexDigits = 16;

std::string hex(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const bool is_whole = text.size() == kHexDigits && stop == text.data() + text.size();
  return error == std::errc() && is_whole ? std::optional(number) : std::nullopt;
}

// The units that are counted.  JSON has no integers of 128 bits.
constexpr std::int64_t kFemtojoulesPerJoule = 1'000'000'000'000'000;

Json energy_json(const runtime::EnergyUse& energy) {
  Json units = Json::array();
  for (std::size_t i = 0; i < energy.units.size(); ++i) {
    const auto& [is_counted, amount, femtojoules] = energy.units[i];
    if (!is_counted) continue;
    units.push_back({i, amount, static_cast<std::int64_t>(femtojoules / kFemtojoulesPerJoule),
                     static_cast<std::int64_t>(femtojoules % kFemtojoulesPerJoule)});
  }
  return {energy.time.count(), std::move(units)};
}

runtime::EnergyUse parse_energy(const Json& json) {
  runtime::EnergyUse energy{.time = Time{json.at(0).get<std::int64_t>()}};
  for (const Json& unit : json.at(1)) {
    const Wide joules = unit.at(2).get<std::int64_t>();
    energy.units.at(unit.at(0).get<std::size_t>()) = {
        true, unit.at(1).get<std::int64_t>(),
        joules * kFemtojoulesPerJoule + unit.at(3).get<std::int64_t>()};
  }
  return energy;
}

Json faults_json(const std::vector<FaultEffect>& faults) {
  Json list = Json::array();
  for (const FaultEffect& one : faults) {
    list.push_back(
        {one.fault, one.count, one.added.count(), one.first.count(), one.detail, one.is_flip});
  }
  return list;
}

std::vector<FaultEffect> parse_faults(const Json& json) {
  std::vector<FaultEffect> faults;
  for (const Json& one : json) {
    faults.push_back({.fault = one.at(0).get<std::string>(),
                      .count = one.at(1).get<std::int64_t>(),
                      .added = Time{one.at(2).get<std::int64_t>()},
                      .first = Time{one.at(3).get<std::int64_t>()},
                      .detail = one.at(4).get<std::string>(),
                      .is_flip = one.at(5).get<bool>()});
  }
  return faults;
}

Json outcome_json(const NamedOutcome& named) {
  Json systems = Json::array();
  for (const EngineStatistics& one : named.outcome.systems) {
    Json algorithms = Json::array();
    for (const AlgorithmRun& run : one.algorithms) {
      algorithms.push_back(Json::array({run.collective, run.algorithm, run.is_configured}));
    }
    systems.push_back({one.simulated.count(), one.events, hex(one.fingerprint), one.busiest.unit,
                       one.busiest.busy.count(), one.busiest.kernel_time.count(),
                       std::move(algorithms), one.rules, one.timed.count(), energy_json(one.energy),
                       faults_json(one.faults), one.ranks_of_each, one.unlike,
                       one.are_nearly_alike});
  }
  return {{"inputs", hex(named.inputs)},
          {"point", named.point},
          {"ok", named.outcome.ok},
          {"rows", rows_to_json(named.outcome.rows)},
          {"systems", std::move(systems)}};
}

NamedOutcome parse_outcome(const Json& json) {
  NamedOutcome named{
      .inputs = parse_hex(json.at("inputs").get<std::string>()).value(),
      .point = json.at("point"),
      .outcome = {.ok = json.at("ok"), .rows = rows_from_json(json.at("rows")), .systems = {}}};
  for (const Json& system : json.at("systems")) {
    const auto time_at = [&](std::size_t i) { return Time{system.at(i).get<std::int64_t>()}; };
    EngineStatistics one{.simulated = time_at(0),
                         .timed = time_at(8),
                         .events = system.at(1).get<std::uint64_t>(),
                         .fingerprint = parse_hex(system.at(2).get<std::string>()).value(),
                         .busiest = {system.at(3).get<std::string>(), time_at(4), time_at(5)}};
    for (const Json& run : system.at(6)) {
      one.algorithms.push_back({run.at(0), run.at(1), run.at(2)});
    }
    one.rules = system.at(7).get<std::vector<int>>();
    one.energy = parse_energy(system.at(9));
    one.faults = parse_faults(system.at(10));
    one.ranks_of_each = system.at(11).get<int>();
    one.unlike = system.at(12).get<std::string>();
    one.are_nearly_alike = system.at(13).get<bool>();
    named.outcome.systems.push_back(std::move(one));
  }
  return named;
}

}  // namespace

std::string describe_fault(const PointOutcome& outcome) {
  const Cell* const error = outcome.rows.empty() ? nullptr : outcome.rows.front().find("error");
  return error == nullptr ? "has not passed its check" : "has failed: " + to_text(*error);
}

std::optional<std::string> to_line(const NamedOutcome& named) {
  try {
    const std::string json = outcome_json(named).dump();
    return hex(content_hash(json)) + ' ' + json;
  } catch (const Json::type_error&) {
    return std::nullopt;
  }
}

std::optional<NamedOutcome> parse_line(std::string_view line) {
  if (line.size() <= kHexDigits || line[kHexDigits] != ' ') return std::nullopt;
  const std::string_view json = line.substr(kHexDigits + 1);
  if (parse_hex(line.substr(0, kHexDigits)) != content_hash(json)) return std::nullopt;
  try {
    return parse_outcome(parse_rows_json(json));
  } catch (const std::exception&) {  // another version's
    return std::nullopt;
  }
}

}  // namespace kernbench::benches
