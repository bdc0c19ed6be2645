// Layers convert an input that does not fit their weight: to its type, or to its holders.

#pragma once

#include "runtime/ops/placement.h"
#include "runtime/tensor/tensor.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

// Returns x as a layer takes it whose type was not given (ADR-0133): in the weight's type, as
// Megatron's Float16Module casts it, and whole on each of the weight's PEs.  They read what they
// have not from the PEs that have it, and in backward those read the gradient.  With the weight's
// PEs already, x keeps its placement; what has no whole rows is returned as it is, for the layer to
// refuse.  Throws DeviceError KB-M001, KB-M019, KB-M013.
Tensor layer_input(const Tensor& x, const Tensor& weight);
// The same in x's own type.
Tensor move_to_holders(const Tensor& x, const Tensor& weight);

// Scatters the columns of an x that all holders have.  The result has the given placement, which
// may be cut.
Tensor scatter_columns_over_holders(RuntimeContext& torch, const Tensor& x,
                                    const ops::Placement& placement,
                                    const OptionalCallGroup& group = Location::current());

}  // namespace kernbench::tp
