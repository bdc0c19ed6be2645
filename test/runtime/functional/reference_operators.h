// Computes operators operation by operation as their kernels do, with bounds.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "test/runtime/functional/running_error.h"

namespace kernbench::test {

using Inputs = std::vector<Numbers>;

inline Numbers exactly(const std::vector<float>& elements) {
  return {elements.begin(), elements.end()};
}

// Calls visit(row) for each row of so many columns.
template <class Visit>
void for_each_row(const Numbers& x, std::size_t columns, Visit visit) {
  for (std::size_t begin = 0; begin < x.size(); begin += columns) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
    visit(Numbers(first, first + static_cast<std::ptrdiff_t>(columns)));
  }
}

inline Numbers row_of(const Numbers& x, std::size_t row, std::size_t columns) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(row * columns);
  return {first, first + static_cast<std::ptrdiff_t>(columns)};
}

inline void append(Numbers& all, const Numbers& row) {
  all.insert(all.end(), row.begin(), row.end());
}

inline Numbers products(const Numbers& a, const Numbers& b) {
  Numbers result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(a[i] * b[i]);
  return result;
}

// Computes the softmax over the first `seen` elements of a row; the rest is 0.
inline Numbers softmax_of_row(const Numbers& x, std::size_t seen) {
  Bounded most = x[0];
  for (std::size_t i = 1; i < seen; ++i) {
    most = {std::max(most.value, x[i].value), std::max(most.error, x[i].error)};
  }
  Numbers y;
  for (std::size_t i = 0; i < seen; ++i) y.push_back(exp(x[i] - most));
  const Bounded total = sum(y);
  for (Bounded& element : y) element = element / total;
  y.resize(x.size());
  return y;
}

inline Numbers softmax_gradient_of_row(const Numbers& dy, const Numbers& y) {
  const Bounded along = sum(products(dy, y));
  Numbers dx;
  for (std::size_t i = 0; i < y.size(); ++i) dx.push_back(y[i] * (dy[i] - along));
  return dx;
}

// gelu by a sigmoid.
struct TanhGelu {
  Bounded square;
  Bounded gate;
  Bounded value;

  explicit TanhGelu(const Bounded& x)
      : square(x * x),
        gate(sigmoid(fma(square, Bounded::number(0.044715), 1) * x * scale())),
        value(x * gate) {}

  static Bounded scale() { return Bounded::number(2 * std::sqrt(2 / std::acos(-1.0))); }
  Bounded slope() const {
    const Bounded inner = fma(square, Bounded::number(3 * 0.044715), 1) * scale();
    return fma(value * (Bounded(1) - gate), inner, gate);
  }
};

// gelu itself.  Abramowitz and Stegun 7.1.26 is off erfc, as numbers of mathematics, by 1.5e-7.
struct ErfGelu {
  Bounded bell;
  Bounded phi;
  Bounded value;
  double formula_error;  // of Phi(-|x|)
  Bounded at;

  explicit ErfGelu(const Bounded& x) : bell(exp(x * x * Bounded(-0.5))), at(x) {
    const double root = std::sqrt(0.5);
    const Bounded magnitude(std::abs(x.value), x.error);
    const Bounded t = Bounded(1) / fma(magnitude, Bounded::number(0.3275911 * root), 1);
    Bounded total = Bounded::number(1.061405429 / 2);
    for (const double a : {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) {
      total = fma(total, t, Bounded::number(a / 2));
    }
    const Bounded tail = total * t * bell;
    const double exact = std::erfc(magnitude.value * root) / 2;
    formula_error = std::abs(tail.value - exact);
    const Bounded in_exact(exact, tail.error + 0.75e-7);
    phi = x.value < 0 ? in_exact : Bounded(1) - in_exact;
    value = x * phi;
  }

  Bounded slope() const {
    return fma(at * bell, Bounded::number(1 / std::sqrt(2 * std::acos(-1.0))), phi);
  }
};

// A row with mean 0, if it is centered, and a mean square of 1 or so.
struct NormalizedRow {
  Numbers elements;
  Bounded scale;

  NormalizedRow(Numbers x, bool centers, double eps) : elements(std::move(x)) {
    if (centers) subtract_mean(elements);
    scale = rsqrt(mean(products(elements, elements)) + Bounded::number(eps));
    for (Bounded& element : elements) element = element * scale;
  }

  static Bounded mean(const Numbers& x) {
    return sum(x) * Bounded::number(1 / static_cast<double>(x.size()));
  }
  static void subtract_mean(Numbers& x) {
    const Bounded of_all = mean(x);
    for (Bounded& element : x) element = element - of_all;
  }
};

// A matrix, as it is stored or transposed.
class MatrixView {
 public:
  MatrixView(const Numbers& elements, std::size_t columns, bool is_transposed = false)
      : elements_(elements), columns_(columns), is_transposed_(is_transposed) {}

  std::size_t rows() const { return is_transposed_ ? columns_ : elements_.size() / columns_; }
  std::size_t columns() const { return is_transposed_ ? elements_.size() / columns_ : columns_; }
  const Bounded& at(std::size_t row, std::size_t column) const {
    return is_transposed_ ? elements_[column * columns_ + row] : elements_[row * columns_ + column];
  }

 private:
  const Numbers& elements_;
  const std::size_t columns_;
  const bool is_transposed_;
};

// Computes PE_GEMM's product, times a factor, with one rounding.
inline Numbers product(const MatrixView& a, const MatrixView& b, double factor, DType dtype) {
  Numbers result;
  for (std::size_t row = 0; row < a.rows(); ++row) {
    for (std::size_t column = 0; column < b.columns(); ++column) {
      Numbers terms;
      for (std::size_t i = 0; i < a.columns(); ++i) terms.push_back(a.at(row, i) * b.at(i, column));
      const Bounded total = sum_in_any_order(terms);
      result.push_back(rounded(factor == 1 ? total : total * Bounded::number(factor), dtype));
    }
  }
  return result;
}

// The attention of one head: q [s, d], k [t, d] and v [t, e].
struct Attention {
  std::size_t rows;     // s
  std::size_t columns;  // t
  std::size_t depth;    // d
  std::size_t width;    // e
  double scale;
  bool is_causal;

  Numbers probabilities(const Inputs& in, DType dtype) const {
    const Numbers scores =
        product(MatrixView(in[0], depth), MatrixView(in[1], depth, true), scale, dtype);
    Numbers p;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t seen = is_causal ? std::min(row + 1, columns) : columns;
      append(p, round_all_but_0(softmax_of_row(row_of(scores, row, columns), seen), dtype));
    }
    return p;
  }

  Numbers forward(const Inputs& in, DType dtype) const {
    const Numbers p = probabilities(in, dtype);
    return product(MatrixView(p, columns), MatrixView(in[2], width), 1, dtype);
  }

  Inputs backward(const Inputs& in, const Numbers& dy, DType dtype) const {
    const Numbers p = probabilities(in, dtype);
    const MatrixView of_y(dy, width);
    const Numbers dp = product(of_y, MatrixView(in[2], width, true), 1, dtype);
    Numbers ds;
    for (std::size_t row = 0; row < rows; ++row) {
      append(ds, round_all_but_0(
                     softmax_gradient_of_row(row_of(dp, row, columns), row_of(p, row, columns)),
                     dtype));
    }
    return {product(MatrixView(ds, columns), MatrixView(in[1], depth), scale, dtype),
            product(MatrixView(ds, columns, true), MatrixView(in[0], depth), scale, dtype),
            product(MatrixView(p, columns, true), of_y, 1, dtype)};
  }

 private:
  static Numbers round_all_but_0(Numbers row, DType dtype) {  // what is behind the mask is exact
    for (Bounded& element : row) {
      if (element.magnitude() != 0) element = rounded(element, dtype);
    }
    return row;
  }
};

}  // namespace kernbench::test
