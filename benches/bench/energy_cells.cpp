#include "benches/bench/energy_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "benches/bench/cell.h"
#include "benches/bench/cell_text.h"

namespace kernbench::benches {

namespace {

std::string column_of(EnergyUnit unit) {
  return fmt::format("{}_uj", name_of(unit));
}

bool is_energy(std::string_view column) {
  return column == "power_w" || column == "timed_us" || column.ends_with("_uj");
}

bool is_time(std::string_view column) {
  return column.ends_with("_ns") || column.ends_with("_us");
}

Cell rounded(const Cell& cell) {
  const auto* const number = std::get_if<double>(&cell);
  return number == nullptr ? cell : Cell(fmt::format("{:.4g}", *number));
}

bool differs(std::span<const Row> rows, std::string_view column) {
  const Cell* const first = rows.front().find(column);
  return std::ranges::any_of(rows, [&](const Row& row) {
    const Cell* const cell = row.find(column);
    return cell == nullptr || first == nullptr || to_text(*cell) != to_text(*first);
  });
}

// The columns in front of the first time that tell rows from each other.
std::vector<std::string> list_keys(std::span<const Row> rows) {
  constexpr std::size_t kMostKeys = 3;
  std::vector<std::string> keys;
  for (const auto& [column, cell] : rows.front().cells()) {
    if (is_energy(column) || is_time(column) || keys.size() == kMostKeys) break;
    if (differs(rows, column)) keys.push_back(column);
  }
  return keys;
}

bool is_zero(const Row& row, std::string_view column) {
  const Cell* const cell = row.find(column);
  const auto* const number = cell == nullptr ? nullptr : std::get_if<double>(cell);
  return number == nullptr || *number == 0;
}

// The columns of energy in which a row has something.
std::vector<std::string> list_energies(std::span<const Row> rows) {
  std::vector<std::string> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) {
      const bool is_new = std::ranges::find(columns, column) == columns.end();
      if (is_new && is_energy(column) && !is_zero(row, column)) columns.push_back(column);
    }
  }
  return columns;
}

}  // namespace

void add_energy(Row& row, const runtime::EnergyUse& energy) {
  if (!energy.is_counted()) return;
  row.set(kEnergyColumn, runtime::to_microjoules(energy.femtojoules()))
      .set("timed_us", to_ns(energy.time) / 1e3)
      .set("power_w", energy.watts());
  for (const EnergyUnit unit : kEnergyUnits) {
    const runtime::UnitEnergy& one = energy.of(unit);
    if (one.is_counted) row.set(column_of(unit), runtime::to_microjoules(one.femtojoules));
  }
}

void add_energy(Row& row, ContextSet& contexts) {
  if (!contexts.recording().energy || row.find(kEnergyColumn) != nullptr) return;
  add_energy(row, contexts.take_energy());
}

std::vector<Row> energy_rows(std::span<const Row> rows) {
  if (rows.empty()) return {};
  std::vector<std::string> columns = list_keys(rows);
  const std::vector<std::string> energies = list_energies(rows);
  columns.insert(columns.end(), energies.begin(), energies.end());
  std::vector<Row> lines;
  for (const Row& row : rows) {
    if (row.find(kEnergyColumn) == nullptr) continue;
    Row& line = lines.emplace_back();
    for (const std::string& column : columns) {
      const Cell* const cell = row.find(column);
      line.set_cell(column, cell == nullptr ? Cell(nullptr) : rounded(*cell));
    }
  }
  return lines;
}

}  // namespace kernbench::benches
