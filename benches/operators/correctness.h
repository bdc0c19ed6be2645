// Whether all providers of a case compute the same, and the right thing (ADR-0143).

#pragma once

#include <string>
#include <vector>

#include "benches/operators/operator_case.h"
#include "benches/report.h"
#include "benches/sweep.h"

namespace kernbench::benches::operators {

// Any two providers agree: |a - b| <= atol + rtol |b|, as torch.testing.assert_close().
inline constexpr double kAtol = 1e-2;
inline constexpr double kRtol = 1e-2;

// Runs every provider with data, forward and backward, and compares every element with the first
// provider's (kAtol, kRtol) and with the reference (reference.h), within its bound; sums over
// tokens as a whole.  A row for each direction and provider: the largest shares of what is allowed,
// "of_gate" and "of_bound".
// Throws NumericsError KB-N040 (exit code 23) for the first element that is not within them.
// Memory: the operator's inputs, and its results of each provider; no f64 of more than a token.
std::vector<Row> check_providers(PointContext& point, const OperatorCase& operator_case,
                                 const Problem& problem);

// "bf16 (8, 4096, 1280)": type, batch, seq, dim.
std::string describe(const Problem& problem);

}  // namespace kernbench::benches::operators
