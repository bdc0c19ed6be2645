// A kernel's pointers to elements of shards, and its handles to values in a PE's scratch memory:
// what is done with them element by element, and receives that a kernel has posted.

#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/shape.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/kernel_handles.h"
#include "sim_engine/values/compute_ops.h"
#include "sim_engine/values/device_buffer.h"

namespace kernbench::tl {

class AccessRule;
class LaunchArguments;

// An address from which a kernel loads, or to which it stores: an element of a shard in HBM.
class Pointer {
 public:
  Pointer() = default;
  Pointer(const sim::DeviceBuffer& buffer, const std::string& tensor_name)
      : buffer_(buffer), offset_(buffer.first), tensor_name_(&tensor_name) {}
  // Points to a tensor that may not be an argument of the launch and is therefore unchecked: each
  // access asks `rule`.
  Pointer(const sim::DeviceBuffer& buffer, const std::string& tensor_name, const AccessRule& rule)
      : Pointer(buffer, tensor_name) {
    rule_ = &rule;
  }
  // Points to a tensor of the launch that has no shard on the PE.  REQUIRES: both arguments outlive
  // it
  Pointer(const std::string& tensor_name, const LaunchArguments& launched)
      : tensor_name_(&tensor_name), absent_from_(&launched) {}

  DType dtype() const { return buffer_.dtype; }

  // Returns a pointer `elements` further on.  It may point anywhere; load() and store() check it.
  Pointer operator+(std::int64_t elements) const {
    Pointer moved = *this;
    moved.offset_ += elements;
    return moved;
  }

 private:
  friend class Context;
  friend class Tiles;

  // The offset as a 64-bit number.  REQUIRES: check_access() has passed
  std::int64_t offset() const { return static_cast<std::int64_t>(offset_); }

  sim::DeviceBuffer buffer_;
  // The offset in the buffer's region; Wide, since a wrapped one would be another element.
  Wide offset_ = 0;
  const std::string* tensor_name_ = nullptr;
  const LaunchArguments* absent_from_ = nullptr;
  const AccessRule* rule_ = nullptr;  // lives as long as the buffer's region
};

class Context;
class Operand;
class Tensor;

// The handles of one kernel, in an order that depends on the kernel's code alone.
class HandleList {
 public:
  HandleList() = default;
  HandleList(const HandleList&) = delete;
  HandleList& operator=(const HandleList&) = delete;
  ~HandleList() { void_all(); }

  // Makes all handles that still exist void.
  void void_all();

 private:
  friend class Context;
  friend class Tensor;
  void add(Tensor& handle);
  void remove(Tensor& handle);

  Tensor* oldest_ = nullptr;
  Tensor* youngest_ = nullptr;
};

// A value in this PE's scratch memory (TCM), which is freed with the last handle.  A handle is
// void once its kernel has ended, or it was moved from.  Using a void handle, or a handle in
// another kernel or on another PE, is refused (KB-K023).
class Tensor {
 public:
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() { let_go(); }

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

 private:
  friend class Context;
  friend class HandleList;
  friend Tensor apply(sim::MathOp op, std::string_view name,
                      std::initializer_list<Operand> operands);
  // `made_by` is the name of the operation, e.g. "tl.load"; a literal.
  Tensor(Context& context, const Shape& shape, sim::Tile tile, std::string_view made_by);

  void let_go();
  void take_over(Tensor& other) noexcept;

  Context* context_ = nullptr;  // null: void
  Shape shape_;
  sim::Tile tile_;
  DType dtype_ = DType::f32;
  std::string_view made_by_;
  // Links in the list of its kernel's handles, unless it is void.
  Tensor* previous_ = nullptr;
  Tensor* next_ = nullptr;
};

// "[4, 8] f16"
std::string describe(const Tensor& tensor);

// An operand of an elementwise operation: a tensor, or a number that stands for a tensor filled
// with it.  It refers to its tensor, so it is made at the call and used at once.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Operand(Number number) : number_(number) {}
  Operand(const Scalar& number) : number_(number) {}

  const Tensor* tensor() const { return tensor_; }  // null: a number
  const Scalar& number() const { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar number_;
};

// A receive that a kernel has posted and must wait for exactly once, before it ends.  A future
// that was moved from or waited for is used up.
class RecvFuture {
 public:
  RecvFuture(RecvFuture&& other) noexcept
      : kernel_(std::exchange(other.kernel_, 0)),
        shape_(std::move(other.shape_)),
        receive_(std::move(other.receive_)) {}
  RecvFuture& operator=(RecvFuture&& other) noexcept {
    kernel_ = std::exchange(other.kernel_, 0);
    shape_ = std::move(other.shape_);
    receive_ = std::move(other.receive_);
    return *this;
  }

 private:
  friend class Context;
  RecvFuture(std::uint64_t kernel, Shape shape, sim::PostedReceive receive)
      : kernel_(kernel), shape_(std::move(shape)), receive_(std::move(receive)) {}

  std::uint64_t kernel_;  // sim::KernelRun::id(); 0: used up
  Shape shape_;
  sim::PostedReceive receive_;
};

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

// Acts on the kernel that its operands belong to.  `name` is a literal.
Tensor apply(sim::MathOp op, std::string_view name, std::initializer_list<Operand> operands);

template <class T>
concept TensorOrNumber =
    std::same_as<T, Tensor> || std::same_as<T, Scalar> || std::is_arithmetic_v<T>;
template <class A, class B>
concept WithTensor = TensorOrNumber<A> && TensorOrNumber<B> &&
    (std::same_as<A, Tensor> || std::same_as<B, Tensor>);

inline Tensor operator-(const Tensor& a) {
  return apply(sim::MathOp::negate, "-a", {a});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator+(const A& a, const B& b) {
  return apply(sim::MathOp::add, "a + b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator-(const A& a, const B& b) {
  return apply(sim::MathOp::subtract, "a - b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator*(const A& a, const B& b) {
  return apply(sim::MathOp::multiply, "a * b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator/(const A& a, const B& b) {
  return apply(sim::MathOp::divide, "a / b", {a, b});
}
// Takes integers alone (KB-K020).
template <class A, class B>
requires WithTensor<A, B> Tensor operator&(const A& a, const B& b) {
  return apply(sim::MathOp::bit_and, "a & b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator|(const A& a, const B& b) {
  return apply(sim::MathOp::bit_or, "a | b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator^(const A& a, const B& b) {
  return apply(sim::MathOp::bit_xor, "a ^ b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator<(const A& a, const B& b) {
  return apply(sim::MathOp::less, "a < b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator<=(const A& a, const B& b) {
  return apply(sim::MathOp::less_equal, "a <= b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator>(const A& a, const B& b) {
  return apply(sim::MathOp::greater, "a > b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator>=(const A& a, const B& b) {
  return apply(sim::MathOp::greater_equal, "a >= b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator==(const A& a, const B& b) {
  return apply(sim::MathOp::equal, "a == b", {a, b});
}
template <class A, class B>
requires WithTensor<A, B> Tensor operator!=(const A& a, const B& b) {
  return apply(sim::MathOp::not_equal, "a != b", {a, b});
}

}  // namespace kernbench::tl
