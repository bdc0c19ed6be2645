#include "sim_engine/values/axis_math.h"

#include <algorithm>
#include <cstring>

#include "sim_engine/base/check.h"
#include "sim_engine/values/elementwise.h"
#include "sim_engine/values/transcendental.h"

namespace kernbench::sim {

namespace {

constexpr std::int64_t kPartials = 16;

MathOp element_op(AxisOp op) {
  return op == AxisOp::sum       ? MathOp::add
         : op == AxisOp::maximum ? MathOp::maximum
                                 : MathOp::minimum;
}

// to[i] = op(to[i], from[i])
void fold(MathOp op, float* to, const float* from, std::int64_t count) {
  apply(op, {to, from}, to, count);
}

// rows[i][j] = op(rows[i][j], row[j]); a single column is a row against one number.
template <class Op>
void apply_to_rows(Op op, const float* in, const float* row, float* out, std::int64_t length,
                   std::int64_t inner) {
  if (inner == 1) {
    const float number = *row;
    std::transform(in, in + length, out, [=](float x) { return op(x, number); });
    return;
  }
  for (std::int64_t i = 0; i < length; ++i) {
    std::transform(in + i * inner, in + (i + 1) * inner, row, out + i * inner, op);
  }
}

// Works in squares, so that both the elements read and those written stay in the cache.
template <class Element>
void transpose_elements(const std::byte* in, std::int64_t rows, std::int64_t columns,
                        std::byte* out) {
  constexpr std::int64_t kSide = 32;
  const auto* const from = reinterpret_cast<const Element*>(in);
  auto* const to = reinterpret_cast<Element*>(out);
  for (std::int64_t row = 0; row < rows; row += kSide) {
    const std::int64_t row_end = std::min(rows, row + kSide);
    for (std::int64_t column = 0; column < columns; column += kSide) {
      const std::int64_t column_end = std::min(columns, column + kSide);
      for (std::int64_t c = column; c < column_end; ++c) {
        for (std::int64_t r = row; r < row_end; ++r) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

}  // namespace

// The partial results are laid out like the elements, as 16 rows of `inner`: each next 16 rows are
// folded into them at once, and at the end their second half into their first.
void AxisMath::reduce(AxisOp op, const float* in, std::int64_t length, std::int64_t inner,
                      float* out) {
  const MathOp each = element_op(op);
  std::int64_t rows = std::min(length, kPartials);
  partial_.assign(in, in + rows * inner);
  for (std::int64_t row = rows; row < length; row += kPartials) {
    const std::int64_t count = std::min(kPartials, length - row);
    fold(each, partial_.data(), in + row * inner, count * inner);
  }
  for (std::int64_t half = kPartials / 2; half > 0; half /= 2) {
    if (rows <= half) continue;
    fold(each, partial_.data(), partial_.data() + half * inner, (rows - half) * inner);
    rows = half;
  }
  std::copy_n(partial_.data(), inner, out);
}

void AxisMath::softmax(const float* in, std::int64_t length, std::int64_t inner, float* out) {
  extremes_.resize(static_cast<std::size_t>(inner));
  shifted_.resize(static_cast<std::size_t>(length * inner));
  reduce(AxisOp::maximum, in, length, inner, extremes_.data());
  apply_to_rows(std::minus<>(), in, extremes_.data(), shifted_.data(), length, inner);
  exp_elements(shifted_.data(), out, length * inner);
  reduce(AxisOp::sum, out, length, inner, extremes_.data());
  apply_to_rows(std::divides<>(), out, extremes_.data(), out, length, inner);
}

void transpose(const std::byte* in, std::int64_t rows, std::int64_t columns,
               std::int64_t element_size, std::byte* out) {
  KB_CHECK(element_size == 2 || element_size == 4, "elements of {} bytes", element_size);
  if (element_size == 2) return transpose_elements<std::uint16_t>(in, rows, columns, out);
  transpose_elements<float>(in, rows, columns, out);
}

}  // namespace kernbench::sim
