// Whether a case is one: before anything is simulated.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

// Throws Error KB-O003 (exit code 21) if the case, a provider or its sizes are none, and what
// define() throws, of any size in any of the types.  `plot`: batch 1 is timed alone.
void check_case(const OperatorCase& operator_case, std::span<const DType> dtypes,
                std::uint64_t seed, bool plot);

// Of the case's sizes those that are timed.
std::vector<ProblemSize> timed_sizes(const OperatorCase& operator_case, bool plot);

}  // namespace kernbench::benches::operators
