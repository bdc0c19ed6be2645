// Finds what would help a run most: its critical path names resources, and the run is repeated with
// each of them twice as fast (ADR-0200).

#pragma once

#include <span>
#include <string>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/variants/variants.h"
#include "runtime/profiler/profile.h"

namespace kernbench::benches::variants {

// A part of a run that was repeated with one resource twice as fast.
struct Improvement {
  std::string key;    // "sip.ucie.bandwidth"
  std::string value;  // in force
  std::string twice;  // "1024 GB/s"
  Time before{0};
  Time after{0};
  std::string fault = {};  // why the run could not be repeated; empty: it was

  double speed_up() const;
};

// The resources for which a path waits, as keys of the topology, those of the largest share first.
// A resource that takes less than a fiftieth is not named.
std::vector<std::string> keys_on(const Topology& topology, const runtime::CriticalPath& path);

// The variants of a run: one, or those of a grid.
struct RunVariants {
  VariantRequest request = {};
  std::span<const Variant> variants = {};
};

// Says which point the run's longest system is a part of: "tp 1, the longest of 4 points; ...".
// Empty unless there are several.
// REQUIRES: the run was profiled, and has simulated something
std::string explained_point(const BenchRun& run);

// Repeats what the run's longest system is a part of, the point of a sweep or the bench, once for
// each of at most six resources on the path of that system.  The path is that of its timed or of
// its whole time, as `time` says.  Interrupting the run interrupts this; then it throws Error
// KB-S001. REQUIRES: the run was profiled, and has simulated something
std::vector<Improvement> what_helps(Bench& bench, const RunVariants& ran,
                                    const runtime::CriticalPath& path, runtime::ProfiledTime time);

// At most three sentences, what helps most first, or one if nothing does.
std::string to_text(std::vector<Improvement> improvements);

}  // namespace kernbench::benches::variants
