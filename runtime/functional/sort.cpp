// sort, argsort and topk.

#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/indexed.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

namespace {

// Sorts rows by counting: the place of an element is the number of elements that come before it,
// and the element at place i is the one that has counted i.  PE_MATH compares each element with
// each, block by block, and no address depends on a value.
class RowSort {
 public:
  RowSort(tl::Context& tl, std::int64_t columns, bool is_descending)
      : tl_(tl),
        columns_(columns),
        most_(std::max<std::int64_t>(ops::block_elements(tl) / std::max<std::int64_t>(columns, 1),
                                     1)),
        is_descending_(is_descending) {}

  // Writes the sorted elements of a row, and their indices.
  void run(const tl::Tensor& row, const tl::Pointer& values, const tl::Pointer& indices) {
    const tl::Tensor x = tl_.cast(row, is_integral(row.dtype()) ? DType::i64 : DType::f32);
    const tl::Tensor places = count_before(x);
    for_each_block(columns_, [&](std::int64_t begin, std::int64_t size) {
      const tl::Tensor wanted = tl_.reshape(tl_.arange(begin, begin + size), {size, 1});
      const tl::Tensor is_there = tl_.reshape(places, {1, columns_}) == wanted;
      const tl::Tensor own = tl_.reshape(tl_.arange(0, columns_), {1, columns_});
      const tl::Tensor index = tl_.sum(tl_.where(is_there, own, 0), 1);
      // Added to -0, any number stays as it is, and so does its sign.
      const tl::Tensor value = tl_.sum(tl_.where(is_there, tl_.reshape(x, {1, columns_}), -0.0), 1);
      tl_.store(indices + begin, tl_.cast(index, DType::i64));
      tl_.store(values + begin, tl_.cast(value, row.dtype()));
    });
  }

 private:
  template <class Visit>
  void for_each_block(std::int64_t count, Visit visit) {
    ops::for_each_block(count, most_, visit);
  }

  // Counts for each element how many come before it.
  tl::Tensor count_before(const tl::Tensor& x) {
    const tl::Tensor others = tl_.reshape(x, {1, columns_});
    const tl::Tensor other_index = tl_.reshape(tl_.arange(0, columns_), {1, columns_});
    std::vector<tl::Tensor> places;
    for_each_block(columns_, [&](std::int64_t begin, std::int64_t size) {
      const tl::Tensor own =
          tl_.reshape(tl_.narrow(tl_.reshape(x, {columns_}), begin, size), {size, 1});
      const tl::Tensor index = tl_.reshape(tl_.arange(begin, begin + size), {size, 1});
      const tl::Tensor is_first = is_before(others, own);
      const tl::Tensor is_equal = 1 - tl_.maximum(is_first, is_before(own, others));
      const tl::Tensor is_earlier = tl_.cast(other_index < index, x.dtype());
      places.push_back(
          tl_.cast(tl_.sum(tl_.maximum(is_first, is_equal * is_earlier), 1), DType::f32));
    });
    return tl_.cat(places);
  }

  // 1 where a comes before b, whatever their indices.
  tl::Tensor is_before(const tl::Tensor& a, const tl::Tensor& b) {
    const tl::Tensor& less = is_descending_ ? b : a;
    const tl::Tensor& more = is_descending_ ? a : b;
    if (is_integral(a.dtype())) return less < more;
    // NaN, which is not equal to itself, is the largest.
    return tl_.maximum(less < more, (less == less) * (more != more));
  }

  tl::Context& tl_;
  const std::int64_t columns_;
  const std::int64_t most_;  // rows of a matrix of comparisons at a time
  const bool is_descending_;
};

struct Sorted {
  Tensor values;
  Tensor indices;
};

Sorted sorted_rows(const Tensor& x, bool is_descending) {
  const ops::Placement placement = ops::placement_of(x);
  const Sorted sorted{ops::make_like(x, "sort", x.shape(), x.dtype(), placement),
                      ops::make_like(x, "argsort", x.shape(), DType::i64, placement)};
  const std::int64_t columns = x.shape()[x.shape().rank() - 1];
  ops::launch_on_rows("sort", {sorted.values, sorted.indices}, {x}, columns, [=](tl::Context& tl) {
    const ops::LocalPart from = ops::local_part(x, tl);
    const tl::Pointer values = ops::local_part(sorted.values, tl).data;
    const tl::Pointer indices = ops::local_part(sorted.indices, tl).data;
    for (std::int64_t row = 0; columns > 0 && row < from.rows; ++row) {
      const std::int64_t at = row * columns;
      RowSort(tl, columns, is_descending)
          .run(tl.load(from.data + at, {columns}, x.dtype()), values + at, indices + at);
    }
  });
  return sorted;
}

// Records values that were taken from the rows of x.  The user gets the indices too, and backward
// refuses those that were changed since (KB-A005).
Tensor recorded(std::string_view name, const Sorted& from_rows, const Tensor& x) {
  if (!autograd::needs_grad(x)) return from_rows.values;
  const std::size_t last = x.shape().rank() - 1;
  const auto backward = [indices = autograd::SavedTensor(from_rows.indices), last,
                         size = x.shape()[last]](const Tensor& dy) {
    return std::vector{ops::scattered(dy, last, read_indices(indices.get()), size)};
  };
  return autograd::record(name, from_rows.values, {x}, backward);
}

}  // namespace

std::pair<Tensor, Tensor> sort(const Tensor& x, int dim, bool descending) {
  ops::check_operands("sort", {x}, ops::Types::any);
  if (is_float8(x.dtype())) ops::check_is_floating("sort", x);
  ops::check_is_whole("sort", x);
  if (ops::is_point("sort", x, dim)) {
    const auto [values, indices] = sort(reshape(x, {1}), 0, descending);
    return {reshape(values, {}), reshape(indices, {})};
  }
  const std::size_t dimension = ops::wrap_dimension("sort", x, dim);
  ops::check_is_uncut("sort", x, dimension);
  const Tensor turned = contiguous(transpose(x, dim, -1));
  const Sorted sorted = sorted_rows(turned.detach(), descending);
  const Tensor values = recorded("sort", sorted, turned);
  return {contiguous(transpose(values, dim, -1)), contiguous(transpose(sorted.indices, dim, -1))};
}

Tensor argsort(const Tensor& x, int dim, bool descending) {
  return sort(x.detach(), dim, descending).second;
}

namespace {

// Finds the index of the largest, or smallest, element of each row of a block, again and again. NaN
// counts as larger than infinity, as in torch.
class ExtremesOfRows {
 public:
  ExtremesOfRows(tl::Context& tl, const tl::Tensor& block, bool largest)
      : tl_(tl),
        largest_(largest),
        columns_(block.shape()[1]),
        elements_(tl.cast(block, is_integral(block.dtype()) ? DType::i64 : DType::f32)),
        numbers_(tl.reshape(tl.arange(0, columns_), {1, columns_})),
        scores_(elements_),
        is_left_(tl.full(block.shape(), 1, DType::f32)) {
    if (is_integral(block.dtype())) return;
    is_nan_ = elements_ != elements_;
    if (!largest) scores_ = tl.where(*is_nan_, kInfinity, elements_);
  }

  // Returns the index of the first of those that are left, [height, 1] in f32.
  tl::Tensor next() {
    const tl::Tensor score = tl_.where(is_left_, scores_, largest_ ? -kInfinity : kInfinity);
    const tl::Tensor most =
        largest_ ? tl_.max(score, 1, {.keep_dims = true}) : tl_.min(score, 1, {.keep_dims = true});
    tl::Tensor is_most = tl_.cast(score == most, DType::f32);
    if (largest_ && is_nan_) is_most = tl_.maximum(is_most, *is_nan_);
    const auto count = static_cast<double>(columns_);
    // Infinities and NaN count alike among the smallest; infinities come first.
    const tl::Tensor place = !largest_ && is_nan_ ? tl_.fma(*is_nan_, count, numbers_) : numbers_;
    tl::Tensor index =
        tl_.min(tl_.where(is_most * is_left_, place, 2 * count), 1, {.keep_dims = true});
    if (!largest_ && is_nan_) index = tl_.where(index < count, index, index - count);
    is_left_ = is_left_ * (index != numbers_);
    return index;
  }

  // Returns the elements at these indices.  Added to -0, any number stays as it is.
  tl::Tensor elements_at(const tl::Tensor& index) {
    return tl_.sum(tl_.where(index == numbers_, elements_, -0.0), 1, {.keep_dims = true});
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  tl::Context& tl_;
  const bool largest_;
  const std::int64_t columns_;
  const tl::Tensor elements_;
  const tl::Tensor numbers_;
  tl::Tensor scores_;  // elements_, but NaN among the smallest
  tl::Tensor is_left_;
  std::optional<tl::Tensor> is_nan_;
};

// Finds the k largest, or smallest, elements of each row.
Sorted extremes_of_rows(const Tensor& x, std::int64_t k, bool largest) {
  const std::size_t last = x.shape().rank() - 1;
  const std::int64_t columns = x.shape()[last];
  const Shape shape = ops::with_size(x.shape(), last, k);
  const ops::Placement placement = ops::placement_of(x);
  const Sorted found{ops::make_like(x, "topk", shape, x.dtype(), placement),
                     ops::make_like(x, "topk", shape, DType::i64, placement)};
  ops::launch_on_rows("topk", {found.values, found.indices}, {x}, columns, [=](tl::Context& tl) {
    const ops::LocalPart from = ops::local_part(x, tl);
    const tl::Pointer values = ops::local_part(found.values, tl).data;
    const tl::Pointer indices = ops::local_part(found.indices, tl).data;
    ops::for_each_row_block(tl, from, [&](std::int64_t row, std::int64_t height) {
      ExtremesOfRows extremes(tl, tl.load(from.data + row * columns, {height, columns}, x.dtype()),
                              largest);
      for (std::int64_t i = 0; i < k; ++i) {
        const tl::Tensor index = extremes.next();
        tl.store(indices + row * k + i, tl.cast(index, DType::i64), k);
        tl.store(values + row * k + i, tl.cast(extremes.elements_at(index), x.dtype()), k);
      }
    });
  });
  return found;
}

}  // namespace

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int dim, bool largest) {
  ops::check_operands("topk", {x}, ops::Types::any);
  if (is_float8(x.dtype())) ops::check_is_floating("topk", x);
  if (ops::is_point("topk", x, dim)) {
    const auto [values, indices] = topk(reshape(x, {1}), k, 0, largest);
    if (k == 0) return {values, indices};
    return {reshape(values, {}), reshape(indices, {})};
  }
  const std::size_t dimension = ops::wrap_dimension("topk", x, dim);
  const std::int64_t size = x.shape()[dimension];
  if (k < 0 || k > size) ops::refuse_shapes("topk", "selected index k out of range");
  const Tensor turned = contiguous(transpose(x, dim, -1));
  ops::check_has_whole_rows("topk", turned);
  if (k == 0) return {narrow(x, dim, 0, 0), narrow(x, dim, 0, 0).detach().to(DType::i64)};
  const Sorted found = extremes_of_rows(turned.detach(), k, largest);
  const Tensor values = recorded("topk", found, turned);
  return {contiguous(transpose(values, dim, -1)), contiguous(transpose(found.indices, dim, -1))};
}

}  // namespace kernbench
