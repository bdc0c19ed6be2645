#include "runtime/ops/redistribute.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include "runtime/launch/kernel_launch.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::ops {

namespace {

// A part of a tensor seen as a matrix, whose rows are all dimensions but the last.  It is a
// rectangle, since only the first and the last dimension are cut.
struct Rectangle {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t position_of(std::int64_t at_row, std::int64_t at_column) const {
    return (at_row - row) * width + at_column - column;
  }
  bool is_empty() const { return height <= 0 || width <= 0; }
};

Rectangle to_rectangle(const ShardInfo& shard) {
  Rectangle part;
  for (std::size_t d = 0; d < shard.shape.rank(); ++d) {
    const bool is_last = d + 1 == shard.shape.rank();
    std::int64_t& offset = is_last ? part.column : part.row;
    std::int64_t& size = is_last ? part.width : part.height;
    offset = offset * shard.shape[d] + shard.offset[d];
    size *= shard.shape[d];
  }
  return part;
}

Rectangle common_part(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.row, b.row);
  const std::int64_t column = std::max(a.column, b.column);
  return {row, column, std::min(a.row + a.height, b.row + b.height) - row,
          std::min(a.column + a.width, b.column + b.width) - column};
}

// Assembles a PE's part of the result from the holders of x.  The result's first element along the
// first dimension is x's element `start`.
class PartMove {
 public:
  PartMove(tl::Context& tl, const Tensor& x, const Tensor& result, std::int64_t start)
      : tl_(tl), x_(x), target_(local_part(result, tl).data) {
    to_ = to_rectangle(shard_at(result, tl.location()));
    for (std::size_t d = 1; d + 1 < x.shape().rank(); ++d) start *= x.shape()[d];
    (x.shape().rank() > 1 ? to_.row : to_.column) += start;
    for (const ShardInfo& shard : x.shards()) {
      if (runtime::contributes(*x.storage(), shard)) sources_.push_back(&shard);
    }
  }

  void run() {
    std::vector<const ShardInfo*> done;
    for (const ShardInfo* source : sources_) {
      const auto is_same = [&](const ShardInfo* other) {
        return other->offset == source->offset && other->shape == source->shape;
      };
      if (std::ranges::any_of(done, is_same)) continue;  // a summand of elements that are written
      done.push_back(source);
      std::vector<const ShardInfo*> summands;
      std::ranges::copy_if(sources_, std::back_inserter(summands), is_same);
      move(summands);
    }
  }

 private:
  void move(const std::vector<const ShardInfo*>& summands) {
    const Rectangle from = to_rectangle(*summands.front());
    const Rectangle part = common_part(from, to_);
    if (part.is_empty()) return;
    for_each_matrix_block(tl_, part.height, part.width, [&](const MatrixBlock& block) {
      const std::int64_t row = part.row + block.row;
      const std::int64_t column = part.column + block.column;
      tl_.store(target_ + to_.position_of(row, column),
                load_sum(summands, from.position_of(row, column), {block.height, block.width},
                         from.width),
                to_.width);
    });
  }

  tl::Tensor load_sum(const std::vector<const ShardInfo*>& summands, std::int64_t at,
                      const Shape& shape, std::int64_t pitch) {
    const DType dtype = x_.dtype();
    tl::Tensor sum = load(*summands.front(), at, shape, pitch);
    if (summands.size() == 1) return sum;
    // The sum is rounded once at the end, whatever the number of summands.
    const DType sums = is_integral(dtype) ? DType::i64 : DType::f32;
    sum = tl_.cast(sum, sums);
    for (std::size_t i = 1; i < summands.size(); ++i) {
      sum = sum + tl_.cast(load(*summands[i], at, shape, pitch), sums);
    }
    return tl_.cast(sum, dtype);
  }

  // Returns the copy of a shard that is nearest to this PE: its own, or one in its cube.
  const ShardInfo& nearest_copy(const ShardInfo& of) const {
    const sim::PeLocation own = tl_.location();
    const auto is_copied = [](Shard level) { return level == Shard::replicate; };
    const auto closeness = [&](const ShardInfo& shard) {
      const bool is_copy = (shard.cube == of.cube || is_copied(x_.dp().cube)) &&
                           (shard.pe == of.pe || is_copied(x_.dp().pe));
      return std::tuple(is_copy, shard.cube == own.cube, shard.pe == own.pe);
    };
    return *std::ranges::max_element(x_.shards(), {}, closeness);
  }

  tl::Tensor load(const ShardInfo& of, std::int64_t at, const Shape& shape, std::int64_t pitch) {
    const ShardInfo& shard = nearest_copy(of);
    return tl_.load(runtime::shard_pointer(x_, {shard.sip, shard.cube, shard.pe}) + at, shape,
                    x_.dtype(), pitch);
  }

  tl::Context& tl_;
  const Tensor& x_;
  const tl::Pointer target_;
  Rectangle to_;
  std::vector<const ShardInfo*> sources_;
};

Tensor moved(const Tensor& x, const Shape& shape, std::int64_t start, const Placement& placement) {
  const Tensor result = make_like(x, "redistribute", shape, x.dtype(), placement);
  launch("redistribute", {result}, {x}, [x, result, start](tl::Context& tl) {
    if (local_part(result, tl).shape.numel() > 0) PartMove(tl, x, result, start).run();
  });
  return result;
}

}  // namespace

Tensor redistributed(const Tensor& x, const Placement& placement) {
  if (placement_of(x) == placement) return x;
  return moved(x, x.shape(), 0, placement);
}

Tensor redistributed_rows(const Tensor& x, std::int64_t start, std::int64_t length,
                          const Placement& placement) {
  return moved(x, with_size(x.shape(), 0, length), start, placement);
}

}  // namespace kernbench::ops
