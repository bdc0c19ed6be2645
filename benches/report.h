// What comes out of a bench, for machines: rows of named cells, as JSON and CSV.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/components/unit_use.h"

namespace kernbench::benches {

using Cell = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string>;

// Cells by column, in the order in which they were set.
class Row {
 public:
  // A number, a text, a bool, or an optional of one of them.  A column is set once.
  template <class Value>
  Row& set(std::string_view column, const Value& value) {
    if constexpr (std::same_as<Value, bool>) {
      return set_flag(column, value);
    } else if constexpr (std::integral<Value>) {
      return set_integer(column, static_cast<std::int64_t>(value));
    } else if constexpr (std::floating_point<Value>) {
      return set_number(column, static_cast<double>(value));
    } else if constexpr (std::convertible_to<const Value&, std::string_view>) {
      return set_text(column, value);
    } else {
      return value ? set(column, *value) : set_nothing(column);
    }
  }

  Row& set(std::string_view column, Cell cell);

  const std::vector<std::pair<std::string, Cell>>& cells() const { return cells_; }
  const Cell* find(std::string_view column) const;

 private:
  Row& set_flag(std::string_view column, bool value);
  Row& set_integer(std::string_view column, std::int64_t value);
  Row& set_number(std::string_view column, double value);
  Row& set_text(std::string_view column, std::string_view value);
  Row& set_nothing(std::string_view column);

  std::vector<std::pair<std::string, Cell>> cells_;
};

// A collective that ran, and by which algorithm.
struct AlgorithmRun {
  std::string collective;
  std::string algorithm;
  bool is_configured = false;  // as ccl.yaml, or --set algorithm=, has it

  friend auto operator<=>(const AlgorithmRun&, const AlgorithmRun&) = default;
};

// Sums over all systems that a bench simulated.
struct EngineStatistics {
  Time simulated{0};
  std::uint64_t events = 0;
  double wall_s = 0;
  std::uint64_t fingerprint = 0;  // of a single system its own; else a hash of all in their order
  sim::UnitUse busiest = {};      // of the system whose kernels ran longest, of equals the first
  std::size_t system_count = 1;
  std::vector<AlgorithmRun> algorithms = {};  // each once, sorted

  double events_per_s() const;
};

struct Report {
  std::string bench;
  bool ok = true;
  std::string topology = {};
  int world_size = 1;
  std::uint64_t seed = 0;
  std::vector<Row> rows = {};
  std::vector<std::string> artifacts = {};
  EngineStatistics engine = {};
};

std::string to_json(const Report& report);

// RFC 4180, the columns in the order in which rows name them first.
std::string to_csv(std::span<const Row> rows);

// The same rows for people, in aligned columns.
std::string to_table(std::span<const Row> rows);

// kernbench's own version: "0.1.0".
std::string_view version();

}  // namespace kernbench::benches
