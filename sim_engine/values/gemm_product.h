// The matrix product of the evaluation: elements of any type through blocks of f32 and Eigen's
// product; f32 where it lies, if that can change no bit (ADR-0020).
//
// The result is cut in parts whose bounds depend on the sizes alone, and a part sums its products
// in an order that depends on them alone, small ones in blocks whose alignment is fixed; so the
// bits do not depend on which thread computes which part, nor on where the elements lie.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sim_engine/base/dtype.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// The elements of an operand, row by row.
struct ElementSource {
  DType dtype = DType::f32;
  const std::byte* data = nullptr;  // null: every element is `scalar`
  float scalar = 0;
  std::int64_t pitch = 0;  // from row to row; 0: rows are contiguous
};

// target = accumulator + a b, rounded once to `dtype`.  The target may be the accumulator's memory.
struct GemmProduct {
  GemmSize size;
  ElementSource a;
  ElementSource b;
  ElementSource accumulator;
  DType dtype = DType::f32;
  std::byte* target = nullptr;
};

// The working memory of one thread: 1.25 MiB, allocated on first use.
class GemmWorkspace {
 public:
  void allocate();

  // The blocks of the two operands and of the result, each aligned to a cache line.  REQUIRES:
  // allocate() was called
  float* a() const { return floats_.get(); }
  float* b() const;
  float* result() const;

 private:
  struct Free {
    void operator()(float* floats) const;
  };
  std::unique_ptr<float[], Free> floats_;
};

// The number of parts that the result is cut into; 0 if it has no elements.
std::int64_t gemm_part_count(const GemmSize& size);

// Computes one part of the result.  REQUIRES: the workspace is allocated
void compute_gemm_part(const GemmProduct& product, std::int64_t part, GemmWorkspace& workspace);

}  // namespace kernbench::sim
