// One way to add an elementwise operator: a row of a table, with what it computes and its
// derivatives (ADR-0207).  elementwise.cpp and activations.cpp have the tables.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/ops/elements.h"

namespace kernbench {

inline constexpr std::size_t kMostElementwiseOperands = 3;

// The numbers among an operator's arguments, such as an exponent, as kernels get them.
using Numbers = std::array<Scalar, 2>;

// The blocks and numbers that a function computes with.  Blocks that it does not need are null.
struct Elements {
  tl::Context& tl;
  std::array<const tl::Tensor*, kMostElementwiseOperands> operands{};
  const tl::Tensor* result = nullptr;    // for derivatives
  const tl::Tensor* gradient = nullptr;  // for derivatives: that of the result
  Numbers numbers{};

  const tl::Tensor& a() const { return *operands[0]; }
  const tl::Tensor& b() const { return *operands[1]; }
  const tl::Tensor& c() const { return *operands[2]; }
  const tl::Tensor& y() const { return *result; }
  const tl::Tensor& dy() const { return *gradient; }
};
using ElementFunction = tl::Tensor (*)(const Elements&);

// Says if a function computes in f32, with one rounding at the end.  A single operation of PE_MATH
// does so anyway, and needs no casts.  Integers are never converted (ADR-0243).
enum class Computes : std::uint8_t { in_own_type, in_f32 };

// The tensors that a derivative needs besides the gradient of the result, as bits.
namespace needs {
inline constexpr unsigned kNothing = 0;
inline constexpr unsigned kA = 1;
inline constexpr unsigned kB = 2;
inline constexpr unsigned kC = 4;
inline constexpr unsigned kResult = 8;
}  // namespace needs

// The gradient of an operand, for the gradient of the result.
struct Derivative {
  ElementFunction of = nullptr;  // null: no gradient flows, unless `is_identity`
  unsigned needs = needs::kNothing;
  Computes computes = Computes::in_f32;
  bool is_identity = false;  // the gradient is that of the result: no kernel computes it

  bool exists() const { return of != nullptr || is_identity; }
};
inline constexpr Derivative kIdentity{.is_identity = true};

// The type of a result: that of its operands and numbers together (ops::result_type()); as before,
// but f32 of integers; or bool.
enum class ResultType : std::uint8_t { promoted, floating, boolean };

struct ElementwiseOperator {
  std::string_view name;
  ops::Linearity linearity;
  ElementFunction forward;
  Computes computes;
  std::array<Derivative, kMostElementwiseOperands> derivatives{};
  unsigned mask = needs::kNothing;  // kA or kB: that operand's type does not matter
  ResultType result = ResultType::promoted;
};

// An operator with another type of result.
constexpr ElementwiseOperator of_type(ResultType result, ElementwiseOperator op) {
  op.result = result;
  return op;
}

// The number as an element of a type, as torch's fill_ and masked_fill convert it: a finite one
// that is too large for the type, or that an integral type has not, is refused (KB-F002), but
// everything fits into a bool.
Scalar as_element(std::string_view name, const Scalar& value, DType dtype);

// Throws DeviceError KB-F002, in torch's words, if all operands are of bool.
void check_has_numbers(std::string_view name, const std::vector<Tensor>& operands);

// Computes an operator as a new tensor, and records it.  `op` must be a constant of the program.
// Throws DeviceError KB-F001, KB-F002, KB-F003.
Tensor apply(const ElementwiseOperator& op, const std::vector<Tensor>& operands,
             const std::vector<Scalar>& numbers = {});

// Computes an operator into its first operand, which it returns, and records that.  Throws as
// apply(), KB-F001 if the first operand would broadcast, and CollectiveError KB-A008, KB-A009 as
// copy_() does.  `called` is what the user called, if that is not the operator's name and "_".
const Tensor& apply_in_place(const ElementwiseOperator& op, const Tensor& target,
                             const std::vector<Tensor>& others = {},
                             const std::vector<Scalar>& numbers = {}, std::string_view called = {});

}  // namespace kernbench
