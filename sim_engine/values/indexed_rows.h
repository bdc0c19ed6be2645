// Computes the values of the kinds index_select and index_add.

#pragma once

#include "sim_engine/values/value.h"

namespace kernbench::sim {

// REQUIRES: the node has storage; what it needs is computed
void compute_index_select(ValueNode& node);
void compute_index_add(ValueNode& node);

}  // namespace kernbench::sim
