// What the operators' kernels have in common: results, launches, and blocks of a shard.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/functional/placement.h"
#include "runtime/tl/tl.h"

namespace kernbench::ops {

// A new tensor beside `like`, on the same holders.  Throws DeviceError KB-F003 if a tensor cannot
// lie so.
Tensor make_like(const Tensor& like, std::string_view name, const Shape& shape, DType dtype,
                 const Placement& placement);

// Runs `body` on every PE that holds a part of `results.front()`, which is not empty, and waits.
// All are on the same holders.
void launch(std::string_view name, const std::vector<Tensor>& results,
            const std::vector<Tensor>& operands, std::function<void(tl::Context&)> body);

// The same for a kernel that has rows of `columns` elements whole in scratch.  Throws DeviceError
// KB-M010, which says what helps, if they do not fit there.
void launch_on_rows(std::string_view name, const std::vector<Tensor>& results,
                    const std::vector<Tensor>& operands, std::int64_t columns,
                    std::function<void(tl::Context&)> body);

// A PE's part of a tensor, as a matrix: all dimensions but the last are rows.
struct LocalPart {
  tl::Pointer data;
  Shape shape;
  std::vector<std::int64_t> offset;  // in the tensor
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
LocalPart local_part(const Tensor& tensor, const tl::Context& tl);

// How much of a shard a kernel works on at a time.  So much that a dozen blocks of f32, and as many
// for what is under way, fit scratch beside those of a collective.
std::int64_t block_elements(const tl::Context& tl);

// At most so many commands of an operator's kernel are under way: two blocks' or so.
inline constexpr int kCommandsAhead = 8;

// Calls visit(begin, size) for stretches of at most `most` that cover [0, count).
template <class Visit>
void for_each_block(std::int64_t count, std::int64_t most, Visit visit) {
  for (std::int64_t begin = 0; begin < count; begin += most) {
    visit(begin, std::min(most, count - begin));
  }
}

// A rectangle of a matrix.
struct MatrixBlock {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// Calls visit(block) for blocks of at most block_elements() that cover a matrix; along columns
// first, so that what belongs to columns serves many rows.
template <class Visit>
void for_each_matrix_block(const tl::Context& tl, std::int64_t rows, std::int64_t columns,
                           Visit visit) {
  const std::int64_t most = block_elements(tl);
  for_each_block(columns, most, [&](std::int64_t column, std::int64_t width) {
    for_each_block(rows, std::max<std::int64_t>(most / width, 1),
                   [&](std::int64_t row, std::int64_t height) {
                     visit(MatrixBlock{row, column, height, width});
                   });
  });
}

}  // namespace kernbench::ops
