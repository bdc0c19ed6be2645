// The least HBM traffic of an operator, for any provider (ADR-0140).

#pragma once

#include <cstdint>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

// The least bytes that HBM moves on a PE with `tokens` tokens.
//
// Forward: every input that an output depends on is loaded once, every output is stored once.
// Backward: upstream gradients are loaded and gradients stored once; besides, it loads something
// that forward has left to it.  Forward may leave any of its values, or those of the backward graph
// that do not depend on upstream gradients: the least that gives backward all that it needs is the
// minimum cut of the graph between the inputs and what depends on upstream gradients.
//
// No kernel that computes with values of the graph moves less.  One whose author has rewritten the
// mathematics may: of (x + z)^2, written as x^2 + 2 x z + z^2, backward can do with x + z.
Bytes least_bytes(const Definition& definition, Direction direction, std::int64_t tokens);

}  // namespace kernbench::benches::operators
