// Operands of different shapes beside each other, as torch broadcasts them: aligned at the last
// dimension, and a size of 1 fits any.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/ops/device_kernel.h"

namespace kernbench::ops {

// Return the shape that two, or all operands', broadcast to.  Throw DeviceError KB-F001, in torch's
// words.
Shape broadcast_sizes(std::string_view name, const Shape& a, const Shape& b);
Shape broadcast_shape(std::string_view name, const std::vector<Tensor>& operands);

// The rule by which the placements of an operator's operands determine that of its result.
enum class Linearity {
  none,      // e.g. a maximum: no operand may be partial
  together,  // linear in all at once, e.g. a + b: all partial
  each,      // linear in each alone, e.g. a * b: one partial, the others replicated
  first,     // linear in the first alone, e.g. a / b
};
// Returns the placement of a result of this shape.  An operand that repeats along a dimension that
// is cut is replicated there.  Throws DeviceError KB-F003.
Placement elementwise_placement(std::string_view name, const std::vector<Tensor>& operands,
                                const Shape& shape, Linearity linearity);
// Does the same after check_operands() and broadcast_shape().
Placement elementwise_placement(std::string_view name, const Tensor& a, const Tensor& b,
                                Linearity linearity);

// True if a tensor of this shape has an element, or several, for each of the domain's rows.
bool has_rows_of(const Shape& domain, const Shape& shape);

// One of the nested loops over the elements of a PE's part of a result.
struct BroadcastLoop {
  std::int64_t size = 1;
  std::uint32_t repeats = 0;  // bit i: operand i has one element here, which is repeated
};
// Says what the blocks of a kernel have to be.  Each needs what the ones before it need.
enum class Along : std::uint8_t {
  elements,  // any rectangles
  rows,      // whole rows: the last dimension is not cut
  matrices,  // whole rows of one of the matrices that the last two dimensions form
};
// Returns at least two loops, outermost first.  Neighbouring dimensions along which the same
// operands repeat are one loop, unless the blocks need them apart.
std::vector<BroadcastLoop> broadcast_loops(const Shape& result, const Shape& part_of_result,
                                           const std::vector<Tensor>& operands, Along along);

// Loads an operand's blocks of the matrix that the innermost two loops form: [height, width], where
// a loop that repeats has size 1.
class BroadcastOperand {
 public:
  // REQUIRES: `operand` is the one that bit `index` of the loops stands for
  BroadcastOperand(const Tensor& operand, std::size_t index,
                   const std::vector<BroadcastLoop>& loops, const tl::Context& tl);

  // `outer`: the indices of the outer loops.
  tl::Tensor block(tl::Context& tl, const std::vector<std::int64_t>& outer,
                   const MatrixBlock& block);

 private:
  tl::Pointer data_;
  std::vector<std::int64_t> strides_;  // of the outer loops
  std::int64_t pitch_ = 1;             // from row to row
  bool repeats_rows_ = false;
  bool repeats_columns_ = false;
  std::optional<tl::Tensor> kept_;  // the last block, where rows repeat
  std::int64_t kept_first_ = 0;
};

// Calls visit(indices) for each combination of the indices of all loops but the innermost two.
template <class Visit>
void for_each_outer_index(const std::vector<BroadcastLoop>& loops, Visit visit) {
  std::vector<std::int64_t> index(loops.size() - 2, 0);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < index.size(); ++i) count *= loops[i].size;
  for (; count > 0; --count) {
    visit(index);
    for (std::size_t i = index.size(); i-- > 0;) {
      if (++index[i] < loops[i].size) break;
      index[i] = 0;
    }
  }
}

}  // namespace kernbench::ops
