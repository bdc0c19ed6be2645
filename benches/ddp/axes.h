// The keys `scheme` and `bucket_cap_mb` of benches of data parallel steps.

#pragma once

#include <vector>

#include "benches/bench/settings.h"
#include "benches/ddp/measured_step.h"

namespace kernbench::benches::ddp {

std::vector<Scheme> read_schemes(const Settings& settings);

// In MiB.  5 and 5.0 are one size: a list may have it once.  Throws UsageError KB-U012 for what is
// no size, or is given twice.
std::vector<double> read_caps(const Settings& settings);

}  // namespace kernbench::benches::ddp
