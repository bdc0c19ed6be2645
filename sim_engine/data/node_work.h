// What it takes to compute the elements of one value: its storage, and work in parts.
//
// The parts of a node touch only elements, each its own: any number of threads may do them at the
// same time, with the same bits.  They look at the node and at what it needs, and change neither.

#pragma once

#include <cstdint>

#include "sim_engine/data/gemm_product.h"
#include "sim_engine/data/value.h"

namespace kernbench::sim {

// Calls visit(ValueNode&) for each node whose elements `node` is computed from, views looked
// through. The paths of views are short afterwards, as compute_part() wants them.
template <class Visit>
void visit_needs(ValueNode& node, const Visit& visit) {
  for (const NodeRef& input : node.inputs) {
    if (input.node() == nullptr) break;
    ValueNode* base = base_of(*input.node()).node;
    // A broadcast is read where its source is.
    const bool is_read_through = node.kind == ValueKind::math && base->is_broadcast();
    visit(is_read_through ? *base_of(*base->inputs[0].node()).node : *base);
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
