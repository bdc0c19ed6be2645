// All of kernbench, for a program that uses the installed package.

#pragma once

#include "benches/bench.h"
#include "benches/ccl_allreduce.h"
#include "benches/program.h"
#include "benches/sweep.h"
#include "ccl/ahbm_backend.h"
#include "ccl/algorithms/exchange.h"
#include "ccl/config.h"
#include "runtime/context/runtime_context.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"
#include "tp/partition.h"

namespace kernbench::detail {

// The layers below do not know of each other: here the runtime learns of its backend (ADR-0107).
inline const bool ahbm_is_registered = ccl::register_ahbm_backend();

}  // namespace kernbench::detail
