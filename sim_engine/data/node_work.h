// What it takes to compute the elements of one value: its storage, and work in parts.
//
// The parts of a node touch only elements, each its own: any number of threads may do them at the
// same time, with the same bits.  They look at the node and at what it needs, and change neither.

#pragma once

#include <cstdint>

#include "sim_engine/data/gemm_product.h"
#include "sim_engine/data/value.h"

namespace kernbench::sim {

// Whether operand `input` of `node`, which lies in `base`, is read where base's own operand is and
// need not be computed: a broadcast by an operation on elements, rows by a matrix product.
bool is_read_through(const ValueNode& node, std::size_t input, const NodeRange& base);

// Calls visit(ValueNode&) for each node whose elements `node` is computed from, views looked
// through. The paths of views are short afterwards, as compute_part() wants them.
template <class Visit>
void visit_needs(ValueNode& node, const Visit& visit) {
  for (std::size_t i = 0; i < node.inputs.size() && node.inputs[i].node() != nullptr; ++i) {
    const NodeRange base = base_of(*node.inputs[i].node());
    const bool through = is_read_through(node, i, base);
    visit(through ? *base_of(*base.node->inputs[0].node()).node : *base.node);
  }
  for (const ValuePiece& piece : node.pieces) visit(*base_of(*piece.value.node()).node);
}

// Gives the node storage for its elements: that of an operand which nobody else refers to, else its
// own.
void take_storage(ValueNode& node);

// How many parts the work is cut in, by the node's kind and size alone, and about how many
// nanoseconds one takes.
std::int64_t part_count(const ValueNode& node);
std::int64_t part_cost(const ValueNode& node);

// REQUIRES: the node has storage; what it needs is computed
void compute_part(ValueNode& node, std::int64_t part, GemmWorkspace& workspace);

}  // namespace kernbench::sim
