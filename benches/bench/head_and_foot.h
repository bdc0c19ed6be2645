// Prints the head and the foot of a run, and writes its report.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "benches/bench/bench_run.h"
#include "benches/bench/report.h"
#include "benches/bench/settings.h"

namespace kernbench::benches {

// The values that --set gives to a run.
struct Variation {
  std::span<const Assignment> fixed = {};
  std::span<const std::string> axes = {};  // what varies
};

std::string head(const BenchInfo& info, BenchRun& run, const Variation& variation);
std::string foot(const Report& report);
// Names the rules of the user's ccl.yaml that have decided for no call; empty if all have.
std::string unused_rules_note(const BenchRun& run);

// The report of what the bench has done so far.  From any thread.
Report make_report(const BenchInfo& info, BenchRun& run, std::span<const Assignment> fixed,
                   double wall_s);

// 1234567 -> "1,234,567", in any locale.
std::string with_commas(std::uint64_t count);

}  // namespace kernbench::benches
