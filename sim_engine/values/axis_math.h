// Operations along an axis on blocks of f32 or of integers, in the order of additions that AxisOp
// documents.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// Computes AxisOps, and reuses its working memory from call to call.
template <class Number>
class AxisMath {
 public:
  // sum, maximum or minimum of [length][inner] elements over the first dimension: `inner` results.
  // REQUIRES: length > 0; `out` does not overlap `in`
  void reduce(AxisOp op, const Number* in, std::int64_t length, std::int64_t inner, Number* out);

  // softmax of [length][inner] elements along the first dimension; integers become 0 or 1.
  // REQUIRES: length > 0; `out` does not overlap `in`
  void softmax(const Number* in, std::int64_t length, std::int64_t inner, Number* out);

 private:
  std::vector<Number> partial_;  // results: [16][inner]
  std::vector<float> extremes_;  // of softmax: [inner]
  std::vector<float> shifted_;   // of softmax: [length][inner]
};

template <>
void AxisMath<float>::softmax(const float* in, std::int64_t length, std::int64_t inner, float* out);
template <>
void AxisMath<std::int64_t>::softmax(const std::int64_t* in, std::int64_t length,
                                     std::int64_t inner, std::int64_t* out);
extern template class AxisMath<float>;
extern template class AxisMath<std::int64_t>;

// Writes [rows][columns] elements of `element_size` bytes as [columns][rows].
// REQUIRES: element_size is 1, 2, 4 or 8; `out` does not overlap `in`
void transpose(const std::byte* in, std::int64_t rows, std::int64_t columns,
               std::int64_t element_size, std::byte* out);

}  // namespace kernbench::sim
