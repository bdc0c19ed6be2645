// Checks that all providers of a case agree with each other and with the reference (ADR-0140).

#pragma once

#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"
#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

// Two providers agree if |a - b| <= atol + rtol |b|, as in torch.testing.assert_close().
inline constexpr double kAtol = 1e-2;
inline constexpr double kRtol = 1e-2;

// The limit of the host memory that one check, and all concurrent checks together, may use.
inline constexpr Bytes kMostCheckedBytes = Bytes{8} << 30;

// The memory for checking `providers` providers: the tensors with rows of tokens, which are nearly
// all of it.  Inputs count once, results once per provider.
Bytes checked_bytes(const Definition& definition, std::size_t providers);

// Runs every provider with data, forward and backward, and compares every element with the first
// provider's (kAtol, kRtol) and with the reference (reference.h), within its bound; sums over
// tokens as a whole.  A row for each direction and provider: the largest shares of what is allowed,
// "of_gate" and "of_bound".
// Throws NumericsError KB-N040 (exit code 23) for the first element that is not within them,
// KB-N041 for one that has no bound, Error KB-O005 (exit code 21) for a provider that writes into
// an input. Memory: checked_bytes() and some tenth more; no f64 of more than a token.
std::vector<Row> check_providers(PointContext& point, const OperatorCase& operator_case,
                                 const Problem& problem);

}  // namespace kernbench::benches::operators
