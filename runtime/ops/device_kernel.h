// The operators' kernels share these: results, launches, and blocks of a shard.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/ops/kernel_function.h"
#include "runtime/ops/placement.h"
#include "runtime/tl/tl.h"

namespace kernbench::ops {

// Makes a new tensor on the holders of `like`.  Throws DeviceError KB-F003 if no policy places a
// tensor so.
Tensor make_like(const Tensor& like, std::string_view name, const Shape& shape, DType dtype,
                 const Placement& placement);

// Makes the same tensor without a place in HBM, which runtime::take_space() gives it.
Tensor make_unplaced_like(const Tensor& like, std::string_view name, const Shape& shape,
                          DType dtype, const Placement& placement);

// Runs `body` on every PE that holds a part of `results.front()`, and waits, or, if launches are
// queued and the body owns what it uses, only issues it.  The body writes the results alone.
// REQUIRES: `results` is not empty; all tensors are on the same holders
using KernelBody = KernelFunction<void(tl::Context&)>;
void launch(std::string_view name, const std::vector<Tensor>& results,
            const std::vector<Tensor>& operands, KernelBody body);

// Does the same as launch(), for a kernel that reads or writes strided views, which others refuse
// (KB-F005).
void launch_on_views(std::string_view name, const std::vector<Tensor>& results,
                     const std::vector<Tensor>& operands, KernelBody body);

// Launches a kernel that keeps whole rows of `columns` elements in scratch.  If they do not fit,
// it throws DeviceError KB-M010 with a remedy.
void launch_on_rows(std::string_view name, const std::vector<Tensor>& results,
                    const std::vector<Tensor>& operands, std::int64_t columns, KernelBody body);

// A PE's part of a tensor, seen as a matrix: all dimensions but the last form its rows.
struct LocalPart {
  tl::Pointer data;
  Shape shape;
  std::vector<std::int64_t> offset;  // in the tensor
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
const ShardInfo& shard_at(const Tensor& tensor, const sim::PeLocation& pe);
LocalPart local_part(const Tensor& tensor, const tl::Context& tl);

// The number of elements that a kernel works on at a time.  It is chosen so that a dozen blocks of
// f32, and as many for commands under way, fit in scratch beside those of a collective.
std::int64_t block_elements(const tl::Context& tl);

// The commands of an operator's kernel that may be under way: those of about two blocks.
inline constexpr int kCommandsAhead = 8;

// Calls visit(begin, size) for consecutive ranges of at most `most` that cover [0, count).
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

// Calls visit(block) for blocks of at most `most` elements that cover a matrix.  Blocks of the
// same columns follow each other, so that data that belongs to columns is loaded once for many
// rows.
template <class Visit>
void for_each_matrix_block(std::int64_t most, std::int64_t rows, std::int64_t columns,
                           Visit visit) {
  for_each_block(columns, most, [&](std::int64_t column, std::int64_t width) {
    for_each_block(rows, std::max<std::int64_t>(most / width, 1),
                   [&](std::int64_t row, std::int64_t height) {
                     visit(MatrixBlock{row, column, height, width});
                   });
  });
}
// Cuts the rows into blocks of at most block_elements().
template <class Visit>
void for_each_matrix_block(const tl::Context& tl, std::int64_t rows, std::int64_t columns,
                           Visit visit) {
  for_each_matrix_block(block_elements(tl), rows, columns, visit);
}

}  // namespace kernbench::ops
