#include "benches/point_outcome.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "benches/content_hash.h"

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

// JSON knows no infinity and no NaN: {"real": "inf"}.
Json json_of(const Cell& cell) {
  if (const double* real = std::get_if<double>(&cell); real != nullptr && !std::isfinite(*real)) {
    return {{"real", fmt::format("{}", *real)}};
  }
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

Cell cell_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::object:
      return std::stod(json.at("real").get<std::string>());
    default:
      return nullptr;
  }
}

Json json_of(const NamedOutcome& named) {
  Json rows = Json::array();
  for (const Row& row : named.outcome.rows) {
    Json cells = Json::object();
    for (const auto& [column, cell] : row.cells()) cells[column] = json_of(cell);
    rows.push_back(std::move(cells));
  }
  Json systems = Json::array();
  for (const EngineStatistics& one : named.outcome.systems) {
    systems.push_back({one.simulated.count(), one.events, hex(one.fingerprint), one.busiest.unit,
                       one.busiest.busy.count(), one.busiest.kernel_time.count()});
  }
  return {{"inputs", hex(named.inputs)},
          {"point", named.point},
          {"ok", named.outcome.ok},
          {"rows", std::move(rows)},
          {"systems", std::move(systems)}};
}

NamedOutcome outcome_of(const Json& json) {
  NamedOutcome named{.inputs = parse_hex(json.at("inputs").get<std::string>()).value(),
                     .point = json.at("point"),
                     .outcome = {.ok = json.at("ok"), .rows = {}, .systems = {}}};
  for (const Json& cells : json.at("rows")) {
    Row& row = named.outcome.rows.emplace_back();
    for (const auto& [column, cell] : cells.items()) row.set(column, cell_of(cell));
  }
  for (const Json& system : json.at("systems")) {
    const auto time_at = [&](std::size_t i) { return Time{system.at(i).get<std::int64_t>()}; };
    named.outcome.systems.push_back(
        {.simulated = time_at(0),
         .events = system.at(1).get<std::uint64_t>(),
         .fingerprint = parse_hex(system.at(2).get<std::string>()).value(),
         .busiest = {system.at(3).get<std::string>(), time_at(4), time_at(5)}});
  }
  return named;
}

}  // namespace

std::optional<std::string> to_line(const NamedOutcome& named) {
  try {
    const std::string json = json_of(named).dump();
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
    return outcome_of(Json::parse(json));
  } catch (const std::exception&) {  // another version's
    return std::nullopt;
  }
}

}  // namespace kernbench::benches
