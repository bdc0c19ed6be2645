// The bench `context`: attention over a sequence that several ranks share.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::context {

BenchInfo context_bench();

}  // namespace kernbench::benches::context
