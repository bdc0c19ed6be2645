// exp, log, sin, erf, ... of blocks of f32, with the same bits on every host.
//
// The C library picks its exp and log by the processor's features, and Eigen's use approximate
// reciprocals whose bits differ between processors.  Here each result is computed in double
// precision by additions, multiplications, divisions and square roots alone, which IEEE 754 defines
// to the bit, and then rounded to f32.
//
// Error, against the exact result: sqrt at most 0.5 units in the last place of f32 (correctly
// rounded); the others at most 0.500001, subnormal results included.  floor is exact.
// Special cases are those of C: exp(-inf) = 0, log(0) = -inf, log of less is NaN, sqrt(-0) = -0,
// rsqrt(0) = inf, rsqrt(-0) = -inf, sigmoid(-inf) = 0, sin(inf) is NaN, floor(-0) = -0.

#pragma once

#include <cstdint>

namespace kernbench::sim {

// out[i] = f(in[i]) for i < count.  `out` may be `in`.
#define KERNBENCH_MATH_FUNCTION(name, ...) \
  void name##_elements(const float* in, float* out, std::int64_t count);
#include "sim_engine/values/math_ops.def"

}  // namespace kernbench::sim
