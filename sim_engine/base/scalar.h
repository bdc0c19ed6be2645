// A number beside a tensor (torch::Scalar), whose category takes part in the choice of a result's
// type: a bool, a whole number or a real one.  A whole number is exact beside elements of i64.

#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim_engine/base/dtype.h"

namespace kernbench {

class Scalar {
 public:
  Scalar() = default;  // 0.0
  // Implicit: callers pass numbers.
  template <std::integral Number>
  Scalar(Number number)
      : real_(static_cast<double>(number)),
        whole_(static_cast<std::int64_t>(number)),
        type_(std::is_same_v<Number, bool> ? DType::boolean : DType::i64) {}
  template <std::floating_point Number>
  Scalar(Number number) : real_(static_cast<double>(number)) {}

  // An infinity that counts as a number of this type: the end of a range that is open.
  static Scalar infinity(double sign, DType type) {
    using Whole = std::numeric_limits<std::int64_t>;
    Scalar open(sign * std::numeric_limits<double>::infinity());
    open.whole_ = sign < 0 ? Whole::min() : Whole::max();
    open.type_ = type;
    return open;
  }

  // The number as f64, to which a whole one is rounded.
  double real() const { return real_; }
  // REQUIRES: is_integral(type())
  std::int64_t whole() const { return whole_; }
  // The type that it has where no tensor decides: bool, i64 or f32.
  DType type() const { return type_; }

  Scalar operator-() const {
    Scalar negated = *this;
    negated.real_ = -real_;
    negated.whole_ = static_cast<std::int64_t>(-static_cast<std::uint64_t>(whole_));
    return negated;
  }

 private:
  double real_ = 0;
  std::int64_t whole_ = 0;
  DType type_ = DType::f32;
};

}  // namespace kernbench
