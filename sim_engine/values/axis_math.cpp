#include "sim_engine/values/axis_math.h"

#include <algorithm>

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
template <class Number>
void fold(MathOp op, Number* to, const Number* from, std::int64_t count) {
  apply(op, BlocksOf<Number>{to, from}, to, count);
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
template <class Number>
void AxisMath<Number>::reduce(AxisOp op, const Number* in, std::int64_t length, std::int64_t inner,
                              Number* out) {
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

template <>
void AxisMath<float>::softmax(const float* in, std::int64_t length, std::int64_t inner,
                              float* out) {
  extremes_.resize(static_cast<std::size_t>(inner));
  shifted_.resize(static_cast<std::size_t>(length * inner));
  reduce(AxisOp::maximum, in, length, inner, extremes_.data());
  apply_to_rows(std::minus<>(), in, extremes_.data(), shifted_.data(), length, inner);
  exp_elements(shifted_.data(), out, length * inner);
  reduce(AxisOp::sum, out, length, inner, extremes_.data());
  apply_to_rows(std::divides<>(), out, extremes_.data(), out, length, inner);
}

template <>
void AxisMath<std::int64_t>::softmax(const std::int64_t* in, std::int64_t length,
                                     std::int64_t inner, std::int64_t* out) {
  const std::vector<float> numbers(in, in + length * inner);
  std::vector<float> results(numbers.size());
  AxisMath<float>().softmax(numbers.data(), length, inner, results.data());
  std::transform(results.begin(), results.end(), out,
                 [](float x) { return static_cast<std::int64_t>(x); });
}

template class AxisMath<float>;
template class AxisMath<std::int64_t>;

void transpose(const std::byte* in, std::int64_t rows, std::int64_t columns,
               std::int64_t element_size, std::byte* out) {
  switch (element_size) {
    case 1:
      return transpose_elements<std::uint8_t>(in, rows, columns, out);
    case 2:
      return transpose_elements<std::uint16_t>(in, rows, columns, out);
    case 4:
      return transpose_elements<std::uint32_t>(in, rows, columns, out);
    default:
      return transpose_elements<std::uint64_t>(in, rows, columns, out);
  }
}

}  // namespace kernbench::sim
