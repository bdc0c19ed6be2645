// The outcome of one point of a sweep, and its text form for a journal or another process.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/report.h"

namespace kernbench::benches {

struct PointOutcome {
  bool ok = true;  // the point has passed its own checks
  std::vector<Row> rows;
  std::vector<EngineStatistics> systems;  // of its contexts, in the order they ended
};

// Why a point is not ok: "has failed: " and the `error` of its first row, or that it has not passed
// its check.
std::string describe_fault(const PointOutcome& outcome);

struct NamedOutcome {
  std::uint64_t inputs = 0;  // BenchRun::inputs_hash()
  std::string point;
  PointOutcome outcome;
};

// One line without a line end: a checksum and JSON.  Every cell comes back as it was.
// nullopt if a text is no UTF-8, which JSON cannot hold.
std::optional<std::string> to_line(const NamedOutcome& named);

// The inverse; nullopt if `line` has another form or is damaged.
std::optional<NamedOutcome> parse_line(std::string_view line);

}  // namespace kernbench::benches
