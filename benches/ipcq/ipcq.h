// The bench `ipcq`: a stream of messages between two PEs beside its bounds.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::ipcq {

BenchInfo ipcq_bench();

}  // namespace kernbench::benches::ipcq
