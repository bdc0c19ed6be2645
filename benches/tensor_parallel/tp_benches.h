// The benches of tensor parallelism: a training step for each number of ranks (ADR-0135).

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::tensor_parallel {

BenchInfo tp_mlp_bench();
BenchInfo tp_transformer_bench();

}  // namespace kernbench::benches::tensor_parallel
