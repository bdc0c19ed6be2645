// The bench `calibrate`: published times of collectives beside simulated ones.  `kernbench
// calibrate` compares in the same way (benches/calibration).

#pragma once

#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/collectives/measured_collective.h"
#include "benches/collectives/published_times.h"

namespace kernbench::benches::collectives {

// The times in a file; throws what parse_published_times() does.
std::vector<PublishedTime> load_published_times(const std::string& file);

// How published collectives run, by the bench's settings; without the collective and the count.
MeasuredInput calibration_input(const Settings& settings, const Topology& topology);

// The collective of a published time, on a machine of its own.
Measurement simulate(PointContext& point, const Topology& topology, const ccl::Config& ccl,
                     const MeasuredInput& input, const PublishedTime& published);

// The simulated time's excess over the published one, in percent.
double error_percent(Time simulated, const PublishedTime& published);

double microseconds(Time time);

// The setting `tolerance`, in percent; infinite if it is not given.
double read_tolerance(const Settings& settings);

BenchInfo calibrate_bench();

}  // namespace kernbench::benches::collectives
