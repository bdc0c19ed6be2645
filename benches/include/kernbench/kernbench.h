// All of kernbench, for a program that uses the installed package.

#pragma once

// clang-format off: it comes first, so that what the compiler says of a wrong worker is short.
#include "runtime/multiprocessing/spawn.h"
// clang-format on

#include "benches/bench/bench.h"
#include "benches/cli/program.h"
#include "benches/collectives/collectives.h"
#include "benches/operators/operator_case.h"
#include "benches/operators/operator_run.h"
#include "ccl/backend/ahbm_registration.h"
#include "ccl/core/algorithm.h"
#include "ccl/core/config.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/context_parallel/context_parallel.h"
#include "runtime/data/data_loader.h"
#include "runtime/expert_parallel/expert_parallel.h"
#include "runtime/expert_parallel/moe.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/grouped_mm.h"
#include "runtime/nn/convolution.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/optim/float16_optimizer.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/parallel/micro_batches.h"
#include "runtime/pipelining/schedules.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"
#include "tp/distributed_data_parallel.h"
#include "tp/layers.h"
#include "tp/mappings.h"
#include "tp/parallel_state.h"
#include "tp/parameter.h"
#include "tp/random.h"

namespace kernbench {

// runtime does not know its backends, so they are registered here (ADR-0107).
inline const bool is_prepared = ccl::prepare_program();

}  // namespace kernbench
