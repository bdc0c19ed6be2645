#include "benches/bench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "benches/bench/cell.h"

namespace kernbench::benches {

namespace {

using Json = nlohmann::ordered_json;

Json make_json(const Cell& cell) {
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

Json make_json(const Row& row) {
  Json object = Json::object();
  for (const auto& [column, cell] : row.cells()) object[column] = make_json(cell);
  return object;
}

Json make_json(const sim::UnitUse& use) {
  if (use.unit.empty()) return nullptr;
  return {{"name", use.unit},
          {"busy_ns", to_ns(use.busy)},
          {"kernels_ns", to_ns(use.kernel_time)},
          {"share", use.share()}};
}

// The energy by unit; nothing if none is counted.
Json make_json(const runtime::EnergyUse& energy) {
  Json units = Json::object();
  for (const EnergyUnit unit : kEnergyUnits) {
    const runtime::UnitEnergy& one = energy.of(unit);
    if (!one.is_counted) continue;
    units[std::string(name_of(unit))] = {{counts_operations(unit) ? "flop" : "bytes", one.amount},
                                         {"uj", runtime::to_microjoules(one.femtojoules)}};
  }
  const auto watts = energy.watts();
  return {{"uj", runtime::to_microjoules(energy.femtojoules())},
          {"timed_ns", to_ns(energy.time)},
          {"watts", watts ? Json(*watts) : Json()},
          {"units", std::move(units)}};
}

Json make_json(const std::vector<FaultEffect>& faults, bool ok) {
  Json list = Json::array();
  for (const FaultEffect& effect : faults) {
    Json one = {{"fault", effect.fault},
                {"count", effect.count},
                {"first_ns", effect.count > 0 ? Json(to_ns(effect.first)) : Json()},
                {"added_ns", to_ns(effect.added)},
                {"detail", effect.detail}};
    if (effect.is_flip) one["seen"] = effect.count > 0 && !ok;
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

double EngineStatistics::events_per_s() const {
  return wall_s > 0 ? static_cast<double>(events) / wall_s : 0;
}

std::string to_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(make_json(row));
  Json set = Json::object();
  for (const auto& [key, value] : report.set) set[key] = value;
  const EngineStatistics& engine = report.engine;
  Json json = {{"kernbench", version()},
               {"bench", report.bench},
               {"ok", report.ok},
               {"topology", report.topology},
               {"world_size", report.world_size},
               {"seed", report.seed},
               {"set", std::move(set)},
               {"shuffle_ties", report.shuffle_ties ? Json(*report.shuffle_ties) : Json()},
               {"rows", std::move(rows)},
               {"artifacts", report.artifacts},
               {"engine",
                {{"simulated_ns", to_ns(engine.simulated)},
                 {"events", engine.events},
                 {"events_per_s", engine.events_per_s()},
                 {"wall_s", engine.wall_s},
                 {"fingerprint", fmt::format("{:016x}", engine.fingerprint)},
                 {"busiest_unit", make_json(engine.busiest)}}}};
  if (engine.ranks_of_each > 1) {
    json["engine"]["ranks_of_each"] = engine.ranks_of_each;
    json["engine"]["are_nearly_alike"] = engine.are_nearly_alike;
  }
  if (!engine.unlike.empty()) json["engine"]["unlike"] = engine.unlike;
  if (engine.energy.is_counted()) json["energy"] = make_json(engine.energy);
  if (!engine.faults.empty()) json["faults"] = make_json(engine.faults, report.ok);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string_view version() {
  return KERNBENCH_VERSION;
}

}  // namespace kernbench::benches
