#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "sim_engine/base/units.h"

namespace kernbench {

// Element types.  Arithmetic on types of floating point is done in f32 with one rounding to the
// type per operation (ADR-0020), arithmetic on integral ones exactly, modulo 2^64 (ADR-0243).  The
// 8-bit types are for storage: operators of tensors convert them, and of those of floating point
// they compute matrix products.
enum class DType : std::uint8_t {
  f16,
  bf16,
  f32,
  i32,
  i64,
  boolean,
  f8e4m3fn,
  f8e5m2,
  u8,
  i8,
  i16
};

// The types that models, collectives and benches compute in.
inline constexpr std::array kDTypes = {DType::f16, DType::bf16, DType::f32};
inline constexpr std::array kAllDTypes = {
    DType::f16,      DType::bf16,   DType::f32, DType::i32, DType::i64, DType::boolean,
    DType::f8e4m3fn, DType::f8e5m2, DType::u8,  DType::i8,  DType::i16};

// Size of one element.
inline constexpr std::array<Bytes, kAllDTypes.size()> kElementSizes = {2, 2, 4, 4, 8, 1,
                                                                       1, 1, 1, 1, 2};
constexpr Bytes size_of(DType dtype) {
  return kElementSizes[static_cast<std::size_t>(dtype)];
}

constexpr bool is_integral(DType dtype) {  // bool too
  return dtype >= DType::u8 || (dtype >= DType::i32 && dtype <= DType::boolean);
}
constexpr bool is_float8(DType dtype) {
  return dtype == DType::f8e4m3fn || dtype == DType::f8e5m2;
}
// True if a matrix product may have factors of these types: of one, or each of fp8.
constexpr bool can_be_factors(DType a, DType b) {
  return a == b || (is_float8(a) && is_float8(b));
}

// The host's types of integers, and the type that elements of each have.
template <class Number>
concept HostInteger = std::same_as<Number, bool> || std::same_as<Number, std::uint8_t> ||
    (std::signed_integral<Number> && !std::same_as<Number, char> && sizeof(Number) <= 8);
template <HostInteger Number>
inline constexpr DType kDTypeOf = std::same_as<Number, bool>       ? DType::boolean
                                  : std::unsigned_integral<Number> ? DType::u8
                                  : sizeof(Number) == 1            ? DType::i8
                                  : sizeof(Number) == 2            ? DType::i16
                                  : sizeof(Number) == 4            ? DType::i32
                                                                   : DType::i64;

// "f16", "bf16", "f32", "i32", "i64", "bool", "f8e4m3fn", "f8e5m2", "u8", "i8", "i16".
std::string_view name_of(DType dtype);

// PyTorch's name: "Half", "BFloat16", "Float", "Int", "Long", "Bool", "Byte", ...
std::string_view torch_name_of(DType dtype);
// The name that torch.dtype prints: "float16", "bfloat16", "float32", "int32", ...
std::string_view torch_dtype_of(DType dtype);

// The largest number of the type; of i64 the largest that an f64 represents.
double largest_of(DType dtype);

// The names of all types, for errors: "f16, bf16, ...".
std::string all_dtypes();

// The inverse of name_of() for kDTypes; nullopt if there is no such type.
std::optional<DType> parse_dtype(std::string_view name);

// A number beside a tensor (torch::Scalar), whose category takes part in the choice of a result's
// type: a bool, a whole number or a real one.  A whole number is exact beside elements of i64.
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
