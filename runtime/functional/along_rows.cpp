// log_softmax, argmax and cumsum are computed along the last dimension.  For another dimension it
// is transposed to be the last one.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"

namespace kernbench {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::LocalPart;
using ops::RowBlock;
using Blocks = std::span<const tl::Tensor>;

// Applies a function of the last dimension along any one.
Tensor along(const Tensor& x, std::size_t dimension,
             const std::function<Tensor(const Tensor&)>& of_last) {
  const auto last = static_cast<int>(x.shape().rank()) - 1;
  const auto dim = static_cast<int>(dimension);
  if (dim == last) return of_last(x);
  return contiguous(transpose(of_last(contiguous(transpose(x, dim, last))), dim, last));
}

// y = x - max - log(sum(exp(x - max))), and its gradient dy - exp(y) sum(dy).
Tensor log_softmax_of_rows(const Tensor& x) {
  ops::check_has_whole_rows("log_softmax", x);
  const DType dtype = x.dtype();
  Tensor y = ops::map_rows("log_softmax", ops::placement_of(x), {x},
                           ops::Owning([dtype](tl::Context& tl, Blocks of, const RowBlock&) {
                             tl::Tensor s = tl.cast(of[0], DType::f32);
                             s = s - tl.max(s, 1, {.keep_dims = true});
                             const tl::Tensor sum = tl.sum(tl.exp(s), 1, {.keep_dims = true});
                             return tl.cast(s - tl.log(sum), dtype);
                           }));
  if (!needs_grad(x)) return y;
  const auto gradient = [y = SavedTensor(y), dtype](const Tensor& dy) {
    const auto placement =
        ops::elementwise_placement("log_softmax_backward", dy, y.get(), ops::Linearity::each);
    return std::vector{
        ops::map_rows("log_softmax_backward", placement, {dy, y.get()},
                      ops::Owning([dtype](tl::Context& tl, Blocks of, const RowBlock&) {
                        const tl::Tensor g = tl.cast(of[0], DType::f32);
                        const tl::Tensor p = tl.exp(tl.cast(of[1], DType::f32));
                        return tl.cast(g - p * tl.sum(g, 1, {.keep_dims = true}), dtype);
                      }))};
  };
  return autograd::record("log_softmax", y, {x}, gradient);
}

// The kernel of argmax, for a result with one column.
void find_largest(tl::Context& tl, const LocalPart& source, const tl::Pointer& target) {
  const std::int64_t columns = source.columns;
  ops::for_each_row_block(tl, source, [&](std::int64_t row, std::int64_t height) {
    const tl::Tensor block =
        tl.load(source.data + row * columns, {height, columns}, source.data.dtype());
    const tl::Tensor x = tl.cast(block, is_integral(block.dtype()) ? DType::i64 : DType::f32);
    tl::Tensor is_largest = x == tl.max(x, 1, {.keep_dims = true});
    if (!is_integral(x.dtype())) is_largest = tl.maximum(is_largest, x != x);  // NaN is the largest
    const tl::Tensor candidates =
        tl.where(is_largest, tl.arange(0, columns), static_cast<double>(columns));
    tl.store(target + row, tl.cast(tl.min(candidates, 1), DType::i64));
  });
}

Tensor argmax_of_rows(const Tensor& x) {
  const std::size_t last = x.shape().rank() - 1;
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  const std::int64_t columns = sizes[last];
  sizes[last] = 1;
  Tensor result = ops::make_like(x, "argmax", Shape(sizes), DType::i64, ops::placement_of(x));
  ops::launch_on_rows("argmax", {result}, {x}, columns, [x, result](tl::Context& tl) {
    find_largest(tl, ops::local_part(x, tl), ops::local_part(result, tl).data);
  });
  return result;
}

constexpr std::int64_t kScanned = 64;  // columns that one product adds up

// Adds up each row from its beginning, or from its end: PE_GEMM multiplies stretches of it with a
// triangle of ones, and what came before is added to each stretch.  An infinity times 0 would be
// NaN, so that a second product counts what is not finite.
class RowScan {
 public:
  RowScan(tl::Context& tl, const LocalPart& source, const tl::Pointer& target, bool is_reverse)
      : tl_(tl), source_(source), target_(target), is_reverse_(is_reverse) {}

  void run() {
    const std::int64_t columns = source_.columns;
    const std::int64_t height = std::max<std::int64_t>(ops::block_elements(tl_) / kScanned, 1);
    const std::int64_t stretches = tl_.cdiv(columns, kScanned);
    ops::for_each_block(source_.rows, height, [&](std::int64_t row, std::int64_t count) {
      tl::Tensor before = tl_.zeros({count, 1}, DType::f32);
      for (std::int64_t i = 0; i < stretches; ++i) {
        const std::int64_t column = (is_reverse_ ? stretches - 1 - i : i) * kScanned;
        scan({row, column, count, std::min(kScanned, columns - column)}, before);
      }
    });
  }

 private:
  void scan(const ops::MatrixBlock& block, tl::Tensor& before) {
    const std::int64_t at = block.row * source_.columns + block.column;
    const DType dtype = source_.data.dtype();
    const tl::Tensor x =
        tl_.cast(tl_.load(source_.data + at, {block.height, block.width}, dtype, source_.columns),
                 DType::f32);
    const tl::Tensor from = tl_.reshape(tl_.arange(0, block.width), {block.width, 1});
    const tl::Tensor to = tl_.arange(0, block.width);
    const tl::Tensor triangle = is_reverse_ ? from >= to : from <= to;
    const tl::Tensor finite = tl_.where(tl_.abs(x) < HUGE_VAL, x, 0);
    const tl::Tensor sums = tl_.dot(finite, triangle) + strange_sums(x, triangle) + before;
    tl_.store(target_ + at, tl_.cast(sums, dtype), source_.columns);
    before = before + tl_.sum(x, 1, {.keep_dims = true});
  }

  // The sums of what is not finite.  A count has an infinity as 1, a negative one as twice as many
  // as there are columns, and NaN as both, whose sum it is.
  tl::Tensor strange_sums(const tl::Tensor& x, const tl::Tensor& triangle) {
    constexpr double kNegative = 2 * kScanned;
    const tl::Tensor infinite =
        tl_.where(x == HUGE_VAL, 1, tl_.where(x == -HUGE_VAL, kNegative, 0));
    const tl::Tensor counts = tl_.dot(tl_.where(x == x, infinite, kNegative + 1), triangle);
    return tl_.where(tl_.remainder(counts, kNegative) > 0, HUGE_VAL, 0) -
           tl_.where(counts >= kNegative, HUGE_VAL, 0);
  }

  tl::Context& tl_;
  const LocalPart source_;
  const tl::Pointer target_;
  const bool is_reverse_;
};

Tensor scanned(const Tensor& x, bool is_reverse) {
  Tensor result = ops::make_like(x, "cumsum", x.shape(), x.dtype(), ops::placement_of(x));
  ops::launch("cumsum", {result}, {x}, [x, result, is_reverse](tl::Context& tl) {
    RowScan(tl, ops::local_part(x, tl), ops::local_part(result, tl).data, is_reverse).run();
  });
  return result;
}

// Adds up integers, column by column.
void scan_integers(tl::Context& tl, const LocalPart& source, const tl::Pointer& target) {
  const std::int64_t columns = source.columns;
  ops::for_each_block(
      source.rows, ops::block_elements(tl), [&](std::int64_t row, std::int64_t count) {
        tl::Tensor sum = tl.zeros({count, 1}, DType::i64);
        for (std::int64_t column = 0; column < columns; ++column) {
          const std::int64_t at = row * columns + column;
          sum = sum + tl.cast(tl.load(source.data + at, {count, 1}, source.data.dtype(), columns),
                              DType::i64);
          tl.store(target + at, sum, columns);
        }
      });
}

Tensor scanned_integers(const Tensor& x) {
  Tensor result = ops::make_like(x, "cumsum", x.shape(), DType::i64, ops::placement_of(x));
  ops::launch("cumsum", {result}, {x}, [x, result](tl::Context& tl) {
    scan_integers(tl, ops::local_part(x, tl), ops::local_part(result, tl).data);
  });
  return result;
}

Tensor cumsum_of_rows(const Tensor& x) {
  if (is_integral(x.dtype())) return scanned_integers(x);
  return autograd::record("cumsum", scanned(x, false), {x},
                          [](const Tensor& dy) { return std::vector{scanned(dy, true)}; });
}

}  // namespace

Tensor argmax(const Tensor& of, int dim, bool keepdim) {
  const Tensor x = contiguous(of.detach());
  ops::check_operands("argmax", {x}, ops::Types::any);
  if (ops::is_point("argmax", x, dim)) return reshape(argmax(reshape(x, {1}), 0), {});
  const std::size_t dimension = ops::wrap_dimension("argmax", x, dim);
  if (x.shape()[dimension] == 0) {
    ops::refuse_shapes("argmax", fmt::format("argmax(): Expected reduction dim {} to have non-zero "
                                             "size.",
                                             dimension));
  }
  ops::check_is_whole("argmax", x);
  ops::check_is_uncut("argmax", x, dimension);
  const Tensor indices = along(x, dimension, argmax_of_rows);
  if (keepdim) return indices;
  std::vector<std::int64_t> sizes(indices.shape().begin(), indices.shape().end());
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dimension));
  return reshape(indices, Shape(sizes));
}

Tensor argmax(const Tensor& x) {
  ops::check_operands("argmax", {x}, ops::Types::any);
  if (x.numel() == 0) {
    ops::refuse_shapes("argmax",
                       "argmax(): Expected reduction dim to be specified for input.numel() == 0.");
  }
  for (std::size_t d = 0; d < x.shape().rank(); ++d) ops::check_is_uncut("argmax", x, d);
  return argmax(reshape(x.detach(), {x.numel()}), 0);
}

Tensor cumsum(const Tensor& of, int dim) {
  const Tensor x = contiguous(of);
  ops::check_operands("cumsum", {x}, ops::Types::any);
  if (is_float8(x.dtype())) ops::check_is_floating("cumsum", x);
  if (ops::is_point("cumsum", x, dim)) return reshape(cumsum(reshape(x, {1}), 0), {});
  const std::size_t dimension = ops::wrap_dimension("cumsum", x, dim);
  ops::check_is_uncut("cumsum", x, dimension);
  return along(x, dimension, cumsum_of_rows);
}

Tensor nn::functional::log_softmax(const Tensor& of, int dim) {
  const Tensor x = contiguous(of);
  ops::check_operands("log_softmax", {x});
  if (ops::is_point("log_softmax", x, dim)) return reshape(log_softmax(reshape(x, {1}), 0), {});
  return along(x, ops::wrap_dimension("log_softmax", x, dim), log_softmax_of_rows);
}

}  // namespace kernbench
