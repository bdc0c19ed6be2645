// The placement of a matrix product.

#pragma once

#include <cstddef>

#include "runtime/functional/matmul_kernel.h"
#include "runtime/ops/placement.h"

namespace kernbench::ops {

// Returns the placement of a product.  A shared factor counts as replicated, since every PE reads
// all of it.
// Throws DeviceError KB-F003 if PEs cannot multiply their parts.
Placement placement_of_product(const GemmOperands& operands, std::size_t rank);

}  // namespace kernbench::ops
