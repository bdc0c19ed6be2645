// Whether all providers of a case compute the same, and the right thing (ADR-0143).

#pragma once

#include <string>
#include <vector>

#include "benches/operators/definition.h"
#include "benches/row.h"
#include "benches/sweep.h"

namespace kernbench::benches::operators {

// Any two providers agree: |a - b| <= atol + rtol |b|, as torch.testing.assert_close().
inline constexpr double kAtol = 1e-2;
inline constexpr double kRtol = 1e-2;

// What a check may take of the host's memory, and all checks that run at once.
inline constexpr Bytes kMostCheckedBytes = Bytes{8} << 30;

// What the check of so many providers takes: tensors with rows of tokens, which are nearly all of
// it.  Inputs are there once, results for each provider.
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
