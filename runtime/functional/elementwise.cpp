#include "runtime/functional/elementwise.h"

#include "runtime/autograd/autograd.h"
#include "runtime/functional/elements.h"

namespace kernbench {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::Linearity;

namespace {

using Blocks = std::span<const tl::Tensor>;

// What a gradient of a + b or a b in the shape of a is for b.
Tensor reduced_to(const Shape& shape, const Tensor& gradient) {
  return gradient.shape() == shape ? gradient : ops::sum_of_rows(gradient);
}

Tensor product(const Tensor& a, const Tensor& b) {
  return ops::map("mul", ops::elementwise_placement("mul", a, b, Linearity::each), {a, b},
                  [](tl::Context&, Blocks of) { return of[0] * of[1]; });
}

// dy where y is positive, else 0.
Tensor relu_gradient(const Tensor& dy, const Tensor& y) {
  return ops::map("relu_backward",
                  ops::elementwise_placement("relu_backward", dy, y, Linearity::each), {dy, y},
                  [](tl::Context& tl, Blocks of) { return tl.where(of[1] > 0, of[0], 0); });
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  const auto backward = [shape = b.defined() ? b.shape() : Shape(), of_a = needs_grad(a),
                         of_b = needs_grad(b)](const Tensor& dy) {
    return std::vector{of_a ? dy : Tensor(), of_b ? reduced_to(shape, dy) : Tensor()};
  };
  return autograd::record("add", ops::sum_of(a, b), {a, b}, backward);
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  Tensor result = product(a, b);
  if (!needs_grad(a, b)) return result;
  const auto backward = [a = needs_grad(b) ? SavedTensor(a) : SavedTensor(),
                         b = needs_grad(a) ? SavedTensor(b) : SavedTensor(), shape = b.shape(),
                         of_a = needs_grad(a), of_b = needs_grad(b)](const Tensor& dy) {
    return std::vector{of_a ? product(dy, b.get()) : Tensor(),
                       of_b ? reduced_to(shape, product(dy, a.get())) : Tensor()};
  };
  return autograd::record("mul", std::move(result), {a, b}, backward);
}

Tensor relu(const Tensor& x) {
  ops::check_operands("relu", {x});
  const ops::Placement placement = ops::placement_of(x);
  if (placement.is_partial()) {
    ops::refuse_placement("relu", x, "the relu of a sum needs the sum: all_reduce it first");
  }
  Tensor y = ops::map("relu", placement, {x},
                      [](tl::Context& tl, Blocks of) { return tl.maximum(of[0], 0); });
  if (!needs_grad(x)) return y;
  return autograd::record("relu", y, {x}, [y = SavedTensor(y)](const Tensor& dy) {
    return std::vector{relu_gradient(dy, y.get())};
  });
}

Tensor clone(const Tensor& x) {
  ops::check_operands("clone", {x});
  return autograd::record("clone", ops::copy_of(x), {x},
                          [](const Tensor& dy) { return std::vector{dy}; });
}

}  // namespace kernbench
