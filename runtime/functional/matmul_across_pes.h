// Matrix products whose PEs read factors where they lie, on other PEs too.

#pragma once

#include "runtime/functional/matmul_kernel.h"

namespace kernbench::ops {

// Computes c = alpha (a b) + bias on every PE that holds rows of c, each with tl.composite.  Rows
// of a factor that several PEs need are read from HBM once (sim::SharedTiles).
// Throws DeviceError KB-F003 for a factor whose rows in memory are cut within, or a partial one.
// REQUIRES: c's columns are whole; a and b are folded, are read in place and lie on c's holders;
// the product sums over at least one element
void gemm_across_pes(const Tensor& c, const GemmOperands& operands);

}  // namespace kernbench::ops
