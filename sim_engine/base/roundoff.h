// The rounding of an element type: a rounded result is within u of the exact one, relative to it.

#pragma once

#include "sim_engine/base/dtype.h"

namespace kernbench {

// Returns u, half the distance from 1 to the next number.
// REQUIRES: the type is one of kDTypes
constexpr double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

}  // namespace kernbench
