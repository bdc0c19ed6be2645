// Computes the elements of one value: its storage, and the work in parts.
//
// Each part of a node writes only elements of its own, so any number of threads may compute parts
// at the same time and get the same bits.  Parts read the node and its inputs, and change neither.

#pragma once

#include <cstdint>

#include "sim_engine/values/gemm_product.h"
#include "sim_engine/values/value.h"

namespace kernbench::sim {

// True if operand `input` of `node`, which lies in `base`, is read from base's own operand, so that
// base need not be computed: a broadcast read by an operation on elements, or rows read by a matrix
// product.
bool is_read_through(const ValueNode& node, std::size_t input, const NodeRange& base);

// Calls visit(ValueNode&) for each node whose elements `node` is computed from, looking through
// views.  It shortens the paths of views, as compute_part() requires.
template <class Visit>
void visit_needs(ValueNode& node, const Visit& visit) {
  for (std::size_t i = 0; i < node.inputs.size() && node.inputs[i].node() != nullptr; ++i) {
    const NodeRange base = find_base(*node.inputs[i].node());
    const bool through = is_read_through(node, i, base);
    visit(through ? *find_base(*base.node->inputs[0].node()).node : *base.node);
  }
  for (const ValuePiece& piece : node.pieces) visit(*find_base(*piece.value.node()).node);
}

// Gives the node storage for its elements: that of an operand to which nobody else refers, if it
// fits, else new storage.
void take_storage(ValueNode& node);

// The number of parts of the work, which depends on the node's kind and size alone, and the
// approximate times of one part and of all in nanoseconds.
std::int64_t part_count(const ValueNode& node);
std::int64_t part_cost(const ValueNode& node);
std::int64_t node_cost(const ValueNode& node);

// REQUIRES: the node has storage; what it needs is computed
void compute_part(ValueNode& node, std::int64_t part, GemmWorkspace& workspace);

}  // namespace kernbench::sim
