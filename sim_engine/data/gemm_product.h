// The matrix product of the replay: elements of any type through blocks of f32 and Eigen's product.
//
// The result is cut in parts whose bounds depend on the sizes alone, and a part sums its products
// in an order that depends on them alone, in blocks whose alignment is fixed; so the bits do not
// depend on which thread computes which part, nor on where the elements lie.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/gemm_size.h"

namespace kernbench::sim {

// The elements of an operand, row by row.
struct ElementSource {
  DType dtype = DType::f32;
  const std::byte* data = nullptr;  // null: every element is `scalar`
  float scalar = 0;
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

// The blocks that a thread works in.  They grow to 1.25 MiB and are used again.
class GemmWorkspace {
 public:
  static constexpr std::int64_t kLineFloats = 16;

  // Room for so many floats, aligned to a cache line: of operand 0, operand 1 or the result, 2.
  // Valid until the next call for the same.
  float* block(std::size_t which, std::int64_t floats);

 private:
  struct alignas(64) Line {
    std::array<float, kLineFloats> floats;
  };
  std::array<std::vector<Line>, 3> blocks_;
};

// How many parts the result is cut in; none if it has no elements.
std::int64_t gemm_part_count(const GemmSize& size);

// Computes one of them.
void compute_gemm_part(const GemmProduct& product, std::int64_t part, GemmWorkspace& workspace);

}  // namespace kernbench::sim
