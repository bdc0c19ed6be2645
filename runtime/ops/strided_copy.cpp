#include "runtime/ops/strided_copy.h"

#include <algorithm>
#include <vector>

#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/tensor/strided_view.h"

namespace kernbench::ops {

namespace {

// One of the nested loops over a PE's elements, with the distances between neighbours in the view
// and in the dense tensor.
struct CopyLoop {
  std::int64_t size = 1;
  std::int64_t in_view = 1;
  std::int64_t in_dense = 1;
};

// Returns the loops, outermost first.  Dimensions that follow each other in both are one loop.
std::vector<CopyLoop> make_copy_loops(const ShardInfo& shard) {
  const std::vector<std::int64_t> strides = runtime::strides_of(shard);
  const std::vector<std::int64_t> dense = runtime::dense_strides(shard.shape);
  std::vector<CopyLoop> loops;
  for (std::size_t d = 0; d < shard.shape.rank(); ++d) {
    const CopyLoop loop{shard.shape[d], strides[d], dense[d]};
    if (loop.size == 1) continue;
    if (!loops.empty() && loops.back().in_view == loop.size * loop.in_view) {
      loops.back() = {loops.back().size * loop.size, loop.in_view, loop.in_dense};
    } else {
      loops.push_back(loop);
    }
  }
  if (loops.empty()) loops.push_back({});
  return loops;
}

CopyLoop take(std::vector<CopyLoop>& loops, std::vector<CopyLoop>::iterator at) {
  const CopyLoop taken = *at;
  loops.erase(at);
  return taken;
}

enum class Direction { from_view, into_view };

// Moves a PE's elements by matrices, in one of three forms: rows that are stretches on both sides;
// a matrix whose rows are stretches in the view and whose columns are stretches in the dense
// tensor, which is transposed on the way; and single elements.
class PartCopy {
 public:
  PartCopy(tl::Context& tl, const ShardInfo& shard, const tl::Pointer& view,
           const tl::Pointer& dense, Direction direction)
      : tl_(tl), view_(view), dense_(dense), direction_(direction), outer_(make_copy_loops(shard)) {
    inner_ = take(outer_, outer_.end() - 1);
    const auto unit = std::ranges::find(outer_, 1, &CopyLoop::in_view);
    // Rows of windows overlap (unfold()), and those of a matrix must not.
    is_transposed_ = inner_.in_view != 1 && unit != outer_.end() && inner_.in_view >= unit->size;
    const auto rows = is_transposed_ ? unit : most_rows();
    other_ = rows != outer_.end() ? take(outer_, rows) : CopyLoop{1, inner_.size, inner_.size};
  }

  void run() { run_outer(0, 0, 0); }

 private:
  // The loop with the most rows of elements that follow each other; the end if there is none.
  std::vector<CopyLoop>::iterator most_rows() {
    auto most = outer_.end();
    for (auto loop = outer_.begin(); loop != outer_.end(); ++loop) {
      const bool are_rows = inner_.in_view == 1 && loop->in_view >= inner_.size;
      if (are_rows && (most == outer_.end() || loop->size > most->size)) most = loop;
    }
    return most;
  }

  void run_outer(std::size_t loop, std::int64_t in_view, std::int64_t in_dense) {
    if (loop == outer_.size()) return move(in_view, in_dense);
    for (std::int64_t i = 0; i < outer_[loop].size; ++i) {
      run_outer(loop + 1, in_view + i * outer_[loop].in_view, in_dense + i * outer_[loop].in_dense);
    }
  }

  void move(std::int64_t in_view, std::int64_t in_dense) {
    const tl::Pointer view = view_ + in_view;
    const tl::Pointer dense = dense_ + in_dense;
    if (inner_.in_view != 1 && !is_transposed_) return move_elements(view, dense);
    for_each_matrix_block(tl_, other_.size, inner_.size, [&](const MatrixBlock& block) {
      const tl::Pointer there = view + block.row * other_.in_view + block.column * inner_.in_view;
      const tl::Pointer here = dense + block.row * other_.in_dense + block.column;
      const Shape shape{block.height, block.width};
      const Shape of_view = is_transposed_ ? Shape{block.width, block.height} : shape;
      const std::int64_t pitch = is_transposed_ ? inner_.in_view : other_.in_view;
      if (direction_ == Direction::from_view) {
        tl_.store(here, turned(load(there, of_view, pitch)), other_.in_dense);
      } else {
        tl_.store(there, turned(load(here, shape, other_.in_dense)), pitch);
      }
    });
  }

  void move_elements(const tl::Pointer& view, const tl::Pointer& dense) {
    for_each_block(inner_.size, block_elements(tl_), [&](std::int64_t begin, std::int64_t size) {
      const tl::Pointer there = view + begin * inner_.in_view;
      const tl::Pointer here = dense + begin;
      if (direction_ == Direction::from_view) {
        tl_.store(here, load(there, {size, 1}, inner_.in_view), 1);
      } else {
        tl_.store(there, load(here, {size, 1}, 1), inner_.in_view);
      }
    });
  }

  tl::Tensor load(const tl::Pointer& from, const Shape& shape, std::int64_t pitch) {
    return tl_.load(from, shape, from.dtype(), pitch);
  }
  tl::Tensor turned(const tl::Tensor& block) { return is_transposed_ ? tl_.trans(block) : block; }

  tl::Context& tl_;
  const tl::Pointer view_;
  const tl::Pointer dense_;
  const Direction direction_;
  std::vector<CopyLoop> outer_;
  CopyLoop inner_;
  CopyLoop other_;  // the other dimension of the matrices
  bool is_transposed_ = false;
};

void copy_parts(std::string_view name, const Tensor& view, const Tensor& row_by_row,
                Direction direction) {
  const bool reads = direction == Direction::from_view;
  const auto body = [=](tl::Context& tl) {
    const ShardInfo& shard = shard_at(view, tl.location());
    if (shard.shape.numel() == 0) return;
    PartCopy(tl, shard, local_part(view, tl).data, local_part(row_by_row, tl).data, direction)
        .run();
  };
  launch_on_views(name, {reads ? row_by_row : view}, {reads ? view : row_by_row}, body);
}

// Returns the view with one of each element that it repeats.  It has size 1 along each dimension
// that repeats, on every holder, so nothing in the result repeats.
Tensor without_repeats(const Tensor& x) {
  std::vector<std::size_t> repeated;
  for (std::size_t d = 0; d < x.shape().rank(); ++d) {
    if (runtime::repeats_along(x, d)) repeated.push_back(d);
  }
  const auto sizes_of = [&](const Shape& shape) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    for (const std::size_t d : repeated) sizes[d] = 1;
    return Shape(sizes);
  };
  return runtime::strided_view(x, sizes_of(x.shape()), x.dp(), [&](const ShardInfo& shard) {
    return runtime::PartOfView{shard.offset, sizes_of(shard.shape), shard.strides, 0};
  });
}

}  // namespace

Tensor dense(const Tensor& x, std::string_view name) {
  if (!runtime::is_strided(x)) return x;
  if (runtime::repeats_elements(x)) {
    return map_to(name, x.shape(), x.dtype(), placement_of(x), {dense(without_repeats(x), name)},
                  [](tl::Context&, std::span<const tl::Tensor> of) { return of[0]; });
  }
  Tensor made = make_like(x, name, x.shape(), x.dtype(), placement_of(x));
  copy_parts(name, x, made, Direction::from_view);
  return made;
}

void write_view(const Tensor& view, const Tensor& x) {
  if (runtime::repeats_elements(view)) {
    refuse_shapes("copy_",
                  "unsupported operation: more than one element of the written-to tensor refers to "
                  "a single memory location. Please clone() the tensor before performing the "
                  "operation.");
  }
  copy_parts("copy_", view, x, Direction::into_view);
}

}  // namespace kernbench::ops
