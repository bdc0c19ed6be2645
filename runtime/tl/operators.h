// Arithmetic and comparisons on tensors: with tensors, or with numbers on either side.
//
// They run on PE_MATH, elementwise, in f32 with one rounding to the type, or exactly on integers.
// Shapes are broadcast as in numpy: aligned at the last dimension, a size of 1 fits any.  A number
// is rounded to the tensor's type first, to which whole numbers are exact in i64.  A comparison
// gives 1 or 0 in its operands' type, a mask: tl.where() takes it, * and tl.maximum() combine two
// as "and" and "or", and tl.sum() counts.
//
// They throw DeviceError KB-K020 if shapes or types differ, KB-K023 if an operand is void or
// belongs to another kernel or PE, KB-M010 if scratch is exhausted.

#pragma once

#include <concepts>
#include <type_traits>

#include "runtime/tl/tl.h"

namespace kernbench::tl {

template <class T>
concept TensorOrNumber =
    std::same_as<T, Tensor> || std::same_as<T, Scalar> || std::is_arithmetic_v<T>;
template <class A, class B>
concept WithTensor = TensorOrNumber<A> && TensorOrNumber<B> &&
    (std::same_as<A, Tensor> || std::same_as<B, Tensor>);

inline Tensor operator-(const Tensor& a) {
  return Context::apply(sim::MathOp::negate, "-a", {a});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator+(const A& a, const B& b) {
  return Context::apply(sim::MathOp::add, "a + b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator-(const A& a, const B& b) {
  return Context::apply(sim::MathOp::subtract, "a - b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator*(const A& a, const B& b) {
  return Context::apply(sim::MathOp::multiply, "a * b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator/(const A& a, const B& b) {
  return Context::apply(sim::MathOp::divide, "a / b", {a, b});
}
// Of integers alone (KB-K020).
template <class A, class B>
requires WithTensor<A, B> Tensor operator&(const A& a, const B& b) {
  return Context::apply(sim::MathOp::bit_and, "a & b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator|(const A& a, const B& b) {
  return Context::apply(sim::MathOp::bit_or, "a | b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator^(const A& a, const B& b) {
  return Context::apply(sim::MathOp::bit_xor, "a ^ b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator<(const A& a, const B& b) {
  return Context::apply(sim::MathOp::less, "a < b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator<=(const A& a, const B& b) {
  return Context::apply(sim::MathOp::less_equal, "a <= b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator>(const A& a, const B& b) {
  return Context::apply(sim::MathOp::greater, "a > b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator>=(const A& a, const B& b) {
  return Context::apply(sim::MathOp::greater_equal, "a >= b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator==(const A& a, const B& b) {
  return Context::apply(sim::MathOp::equal, "a == b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator!=(const A& a, const B& b) {
  return Context::apply(sim::MathOp::not_equal, "a != b", {a, b});
}

}  // namespace kernbench::tl
