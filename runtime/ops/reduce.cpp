#include "runtime/ops/reduce.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ops/fusion.h"

namespace kernbench::ops {

namespace {

// The type in which elements are reduced.
DType computed_in(DType dtype) {
  return is_integral(dtype) ? DType::i64 : DType::f32;
}

// One of the nested loops over the elements of a PE's part of x.
struct Loop {
  std::int64_t size = 1;
  bool is_reduced = false;
};

// Returns at least two loops, of which exactly one of the innermost two is reduced.
std::vector<Loop> make_loops(const Shape& part, DimensionSet dimensions) {
  std::vector<Loop> loops;
  for (std::size_t d = 0; d < part.rank(); ++d) {
    // A dimension of size 1 belongs to either kind, and leaving it out lets its neighbours merge.
    if (part[d] == 1) continue;
    const bool is_reduced = contains(dimensions, d);
    if (!loops.empty() && loops.back().is_reduced == is_reduced) {
      loops.back().size *= part[d];
    } else {
      loops.push_back({part[d], is_reduced});
    }
  }
  if (loops.empty()) loops.push_back({1, true});
  if (loops.size() == 1) loops.insert(loops.begin(), {1, !loops.front().is_reduced});
  return loops;
}

// Reduces a PE's part: loops over the elements that stay, outside, and over those that are reduced,
// inside.
class PartReduction {
 public:
  PartReduction(tl::Context& tl, const Tensor& x, const Tensor& result, const Reduction& reduction,
                DimensionSet dimensions)
      : tl_(tl),
        reduction_(reduction),
        source_(local_part(x, tl)),
        target_(local_part(result, tl).data),
        computed_in_(computed_in(x.dtype())),
        loops_(make_loops(source_.shape, dimensions)),
        rows_(loops_[loops_.size() - 2].size),
        columns_(loops_.back().size),
        reduces_rows_(loops_[loops_.size() - 2].is_reduced),
        width_(std::max<std::int64_t>(std::min(columns_, block_elements(tl)), 1)),
        height_(std::max<std::int64_t>(block_elements(tl) / width_, 1)) {
    for (std::size_t d = 0; d < x.shape().rank(); ++d) {
      if (contains(dimensions, d)) count_ *= static_cast<double>(x.shape()[d]);
    }
  }

  void run() {
    const std::int64_t kept = reduces_rows_ ? columns_ : rows_;
    std::int64_t first = 0;
    for_each_outer(false, 0, [&](std::int64_t offset) {
      for_each_block(kept, reduces_rows_ ? width_ : height_,
                     [&](std::int64_t begin, std::int64_t size) {
                       tl_.store(target_ + first + begin, compute_value(offset, begin, size));
                     });
      first += kept;
    });
  }

 private:
  // Calls visit(offset of the elements) for each index of the outer loops that are reduced, or of
  // those that are not.
  template <class Visit>
  void for_each_outer(bool is_reduced, std::size_t loop, const Visit& visit,
                      std::int64_t offset = 0) {
    if (loop + 2 == loops_.size()) return visit(offset);
    std::int64_t stride = rows_ * columns_;
    for (std::size_t i = loop + 1; i + 2 < loops_.size(); ++i) stride *= loops_[i].size;
    const std::int64_t count = loops_[loop].is_reduced == is_reduced ? loops_[loop].size : 1;
    for (std::int64_t i = 0; i < count; ++i) {
      for_each_outer(is_reduced, loop + 1, visit, offset + i * stride);
    }
  }

  // Reduces to the elements [begin, begin + size) of the innermost loop that stays.
  tl::Tensor compute_value(std::int64_t offset, std::int64_t begin, std::int64_t size) {
    const Shape shape = reduces_rows_ ? Shape{1, size} : Shape{size, 1};
    tl::Tensor value = tl_.full(shape, reduction_.initial, computed_in_);
    for_each_outer(
        true, 0,
        [&](std::int64_t inner) {
          for_each_block(reduces_rows_ ? rows_ : columns_, reduces_rows_ ? height_ : width_,
                         [&](std::int64_t at, std::int64_t length) {
                           value = joined(value, inner,
                                          reduces_rows_ ? MatrixBlock{at, begin, length, size}
                                                        : MatrixBlock{begin, at, size, length});
                         });
        },
        offset);
    if (reduction_.result != nullptr) value = reduction_.result(tl_, value, count_);
    return tl_.cast(value, target_.dtype());
  }

  tl::Tensor joined(const tl::Tensor& value, std::int64_t offset, const MatrixBlock& block) {
    const tl::Tensor loaded = tl_.load(source_.data + offset + block.row * columns_ + block.column,
                                       {block.height, block.width}, source_.data.dtype(), columns_);
    return reduction_.joined(
        tl_, value,
        reduction_.of_block(tl_, tl_.cast(loaded, computed_in_), reduces_rows_ ? 0 : 1));
  }

  tl::Context& tl_;
  const Reduction& reduction_;
  const LocalPart source_;
  const tl::Pointer target_;
  const DType computed_in_;
  const std::vector<Loop> loops_;
  const std::int64_t rows_;
  const std::int64_t columns_;
  const bool reduces_rows_;
  const std::int64_t width_;   // most of a block
  const std::int64_t height_;  // most of a block
  double count_ = 1;           // elements that one result has
};

Level level_of_result(const Tensor& x, const Reduction& reduction, const Level& level,
                      DimensionSet dimensions, DimensionSet dropped) {
  if (level.is_replicate()) return level;
  if (level.is_partial()) {
    if (!reduction.is_linear) check_is_whole(reduction.name, x);
    return level;
  }
  if (contains(dimensions, level.dimension)) {
    if (reduction.is_linear) return kPartial;
    check_is_uncut(reduction.name, x, level.dimension);
  }
  std::size_t dimension = level.dimension;
  for (std::size_t d = 0; d < level.dimension; ++d) dimension -= contains(dropped, d) ? 1 : 0;
  return cut(dimension);
}

Shape shape_of_result(const Shape& shape, DimensionSet dimensions, DimensionSet dropped) {
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (!contains(dropped, d)) sizes.push_back(contains(dimensions, d) ? 1 : shape[d]);
  }
  return Shape(sizes);
}

struct ReducedForm {
  Shape shape;
  DType dtype;
  Placement placement;
};

// Reduces rows that are one block of PartReduction, as it does.
RowFunction of_rows(const Reduction& reduction, DType from, DType to) {
  return Owning([=](tl::Context& tl, std::span<const tl::Tensor> of, const RowBlock&) {
    const Shape column{of[0].shape()[0], 1};
    const tl::Tensor x = tl.cast(of[0], computed_in(from));
    tl::Tensor value = reduction.joined(tl, tl.full(column, reduction.initial, x.dtype()),
                                        reduction.of_block(tl, x, 1));
    if (reduction.result != nullptr) {
      value = reduction.result(tl, value, static_cast<double>(x.shape()[1]));
    }
    return tl.cast(value, to);
  });
}

// Reduces a block's rows, as PartReduction does.
RowFunction of_columns(const Reduction& reduction, DType from) {
  return Owning([=](tl::Context& tl, std::span<const tl::Tensor> of, const RowBlock&) {
    return reduction.of_block(tl, tl.cast(of[0], computed_in(from)), 0);
  });
}

// Returns the operation if a fusion may defer it: the reduction of each row, or of all rows.
std::optional<Operation> deferrable(const Tensor& x, const Reduction& reduction,
                                    DimensionSet dimensions, DimensionSet dropped,
                                    const ReducedForm& form) {
  if (fusion_of(x) == nullptr || !may_defer_rows(x)) return std::nullopt;
  const std::size_t rank = x.shape().rank();
  const DimensionSet last = DimensionSet{1} << (rank - 1);
  const auto operation = [&](const RowFunction& function) {
    return Operation{std::string(reduction.name),
                     {x.shape(), Along::rows},
                     form.shape,
                     form.dtype,
                     form.placement,
                     {x},
                     function};
  };
  if (dimensions == last && dropped == 0) {
    return operation(of_rows(reduction, x.dtype(), form.dtype));
  }
  if (rank == 1 || dimensions != last - 1) return std::nullopt;
  Operation of_all = operation(of_columns(reduction, x.dtype()));
  const std::int64_t columns = x.shape()[rank - 1];
  of_all.fold =
      Fold{reduction, computed_in(x.dtype()), static_cast<double>(x.shape().numel() / columns)};
  return of_all;
}

}  // namespace

Tensor reduced(const Tensor& x, const Reduction& reduction, DimensionSet dimensions,
               DimensionSet dropped) {
  const auto placement = by_level(placement_of(x), [&](Level level) -> std::optional<Level> {
    return level_of_result(x, reduction, level, dimensions, dropped);
  });
  const ReducedForm form{shape_of_result(x.shape(), dimensions, dropped),
                         reduction.widens && is_integral(x.dtype()) ? DType::i64 : x.dtype(),
                         *placement};
  if (auto operation = deferrable(x, reduction, dimensions, dropped, form)) {
    return fusion_of(x)->defer(*std::move(operation));
  }
  Tensor result = make_like(x, reduction.name, form.shape, form.dtype, form.placement);
  launch(reduction.name, {result}, {x}, [x, result, reduction, dimensions](tl::Context& tl) {
    PartReduction(tl, x, result, reduction, dimensions).run();
  });
  return result;
}

Tensor sum_to(const Shape& shape, const Tensor& gradient) {
  const Shape& from = gradient.shape();
  if (from == shape) return gradient;
  const std::size_t missing = from.rank() - shape.rank();
  DimensionSet dimensions = 0;
  DimensionSet dropped = 0;
  for (std::size_t d = 0; d < from.rank(); ++d) {
    if (d < missing) dropped |= 1U << d;
    if (d < missing || shape[d - missing] != from[d]) dimensions |= 1U << d;
  }
  Reduction sum = kSum;
  sum.name = "sum_of_rows";
  return reduced(gradient, sum, dimensions, dropped);
}

Tensor sum_of_rows(const Tensor& x) {
  return sum_to({x.shape()[x.shape().rank() - 1]}, x);
}

}  // namespace kernbench::ops
