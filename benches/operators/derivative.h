// The backward graph of an operator, by reverse-mode differentiation (as torch.autograd).

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "benches/operators/graph.h"

namespace kernbench::benches::operators {

// Adds to the graph the gradients of sum_i <outputs_i, upstream_i> with respect to `inputs`; none
// for an input that no output depends on.
//
// The gradient of a value that is rounded on its way is rounded to the same type on its way back.
// The gradient of an input without rows of tokens ends in a sum over tokens, in f32: summands of
// different PEs are yet to be added.  Throws Error KB-O001 for a gradient that is the same for all
// columns of its input.
// REQUIRES: upstream_i has the extents and the type of outputs_i; inputs are inputs of the graph
std::vector<std::optional<Value>> make_gradients(Graph& graph, std::span<const Value> outputs,
                                                 std::span<const Value> upstream,
                                                 std::span<const Value> inputs);

}  // namespace kernbench::benches::operators
