#include <fmt/format.h>

#include "runtime/functional/elementwise_operator.h"
#include "runtime/functional/functional.h"
#include "runtime/random/generator.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::nn::functional {

namespace {

// x times the number where the mask is 1.
constexpr ElementwiseOperator kDropout{
    "dropout",
    ops::Linearity::each,
    [](const Elements& of) { return of.a() * of.b() * of.numbers[0]; },
    Computes::in_f32,
    {Derivative{[](const Elements& of) { return of.dy() * of.b() * of.numbers[0]; }, needs::kB}}};

// Ones, but 0 with probability p.
Tensor mask_like(const Tensor& x, double p) {
  const Tensor mask = ops::make_like(x, "dropout mask", x.shape(), x.dtype(),
                                     ops::gradient_placement(ops::placement_of(x)));
  const random::Draw draw = random::Generator::of(*x.storage()->simulation, x.device()).draw();
  std::vector<float> elements(static_cast<std::size_t>(x.numel()));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = draw.uniform(static_cast<std::int64_t>(i)) < static_cast<float>(p) ? 0 : 1;
  }
  runtime::set_elements(*mask.storage(), elements);
  return mask;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  ops::check_operands("dropout", {x});
  if (!(p >= 0 && p <= 1)) {
    ops::refuse_shapes("dropout",
                       fmt::format("dropout probability has to be between 0 and 1, but got {}", p));
  }
  if (!training || p == 0) return x;
  return apply(kDropout, {x, mask_like(x, p)}, {p == 1 ? 0 : 1 / (1 - p)});
}

}  // namespace kernbench::nn::functional
