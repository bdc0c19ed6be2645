// Checks that a case is valid, before anything is simulated.

#pragma once

#include <cstdint>
#include <span>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

// Throws Error KB-O003 (exit code 21) if the case, a provider or a size is invalid, and what
// define() throws for any size in any of the types.  `plot`: only batch 1 is timed.
void check_case(const OperatorCase& operator_case, std::span<const DType> dtypes,
                std::uint64_t seed, bool plot);

// The sizes of the case that are timed.
std::vector<ProblemSize> timed_sizes(const OperatorCase& operator_case, bool plot);

}  // namespace kernbench::benches::operators
