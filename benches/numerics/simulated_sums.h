// An all_reduce of normally distributed numbers that a run of the bench simulates.

#pragma once

#include <cstdint>

#include "benches/numerics/sum_errors.h"
#include "runtime/distributed/options.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::numerics {

struct SumCall {
  int ranks = 1;
  DType dtype = DType::f32;
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  Reproducible level = Reproducible::run;
  std::int64_t before = 0;  // other elements that lie in front of them in the tensor
};

struct SimulatedSums {
  Elements given;
  Elements sums;
  Time kernels{0};  // of the collective, on the PE that takes longest
  Time took{0};     // from the last rank's call to the last one's return
};

// Tensors lie on one PE of each rank's SIP.
SimulatedSums simulate_sums(RuntimeContext& torch, const SumCall& call);

}  // namespace kernbench::benches::numerics
