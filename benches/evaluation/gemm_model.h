// Predicts the time of tl.composite on one PE by a recurrence over its steps (ADR-0044).
//
// It is independent of the simulator: no events, no engine.  It shares only the array's closed
// form, the arithmetic of rates, and the number of slices of a cube's HBM.  It holds to the
// picosecond for an f16, bf16 or f32 product without epilogue, as the kernel's only command, if no
// other PE uses the PE's slice of HBM, and rows of an operand lie at most a page apart.  Where PEs
// share operands it is a lower bound: tiles come over SRAM as if they were there and nobody else
// asked for them.

#pragma once

#include <cstdint>

#include "sim_engine/base/dtype.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::benches::evaluation {

struct GemmProblem {
  sim::GemmSize size;
  sim::GemmSize tile;
  DType dtype = DType::f16;
  Bytes a = 0;  // addresses, for the pages that are translated
  Bytes b = 0;
  Bytes c = 0;
  bool shares_operands = false;
};

struct GemmPrediction {
  Time time{0};    // of the kernel on its PE
  Time window{0};  // of the composite
  std::int64_t gemm_count = 0;
  Bytes hbm_loaded = 0;
  Bytes hbm_stored = 0;
};

// REQUIRES: sizes and tiles are positive
GemmPrediction predict_gemm(const Topology& topology, const GemmProblem& problem);

// The closed form of the recurrence for equal steps of one result.  Each product takes `product`,
// the loads of a step `loads` on the slowest link; `fill` is added at the first step and `drain` at
// the last: fill + loads + (count - 1) max(product, loads) + product + drain.  It holds if
// latencies are hidden: latency and loads take no longer than a product, or latency and a product
// no longer than the loads.
struct EqualSteps {
  std::int64_t count = 1;
  Time product{0};
  Time loads{0};
  Time fill{0};
  Time drain{0};
};
Time closed_form(const EqualSteps& steps);

}  // namespace kernbench::benches::evaluation
