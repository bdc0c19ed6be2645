// Random choices among elements, from the generator of their device.

#include <algorithm>
#include <cmath>

#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/random/generator.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

namespace {

// Numbers in f32 beside x, drawn by the host outside of simulated time: `of` makes each of a
// uniform one.
template <class Of>
Tensor noise_beside(const Tensor& x, const Shape& shape, const Of& of) {
  const Tensor noise =
      ops::make_like(x, "noise", shape, DType::f32, ops::gradient_placement(ops::placement_of(x)));
  const random::Draw draw = random::Generator::of(*x.storage()->simulation, x.device()).draw();
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = of(draw.uniform(static_cast<std::int64_t>(i)));
  }
  runtime::set_elements(*noise.storage(), elements);
  return noise;
}

void check_samples(const Tensor& x, std::int64_t samples, bool replacement) {
  if (x.dim() != 1 && x.dim() != 2) {
    ops::refuse_shapes("multinomial", "prob_dist must be 1 or 2 dim");
  }
  if (samples <= 0) ops::refuse_shapes("multinomial", "cannot sample n_sample <= 0 samples");
  if (!replacement && samples > x.size(-1)) {
    ops::refuse_shapes("multinomial",
                       "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  }
  if (!x.storage()->simulation->machine().memory().has_data()) return;
  const std::vector<float> weights = x.to_vector();
  if (std::ranges::any_of(weights, [](float w) { return !(w >= 0 && w < HUGE_VALF); })) {
    ops::refuse_shapes("multinomial",
                       "probability tensor contains either `inf`, `nan` or element < 0");
  }
  const auto columns = static_cast<std::ptrdiff_t>(x.size(-1));
  for (auto row = weights.begin(); row != weights.end(); row += columns) {
    if (std::any_of(row, row + columns, [](float w) { return w > 0; })) continue;
    ops::refuse_shapes("multinomial",
                       "invalid multinomial distribution (sum of probabilities <= 0)");
  }
}

}  // namespace

// The largest of weight / e is at an index with a probability that is proportional to its weight,
// for exponential numbers e; and the next ones are so among the rest (Efraimidis and Spirakis,
// 2006).
Tensor multinomial(const Tensor& of, std::int64_t num_samples, bool replacement) {
  ops::check_operands("multinomial", {of});
  const Tensor x = contiguous(of.detach()).to(DType::f32);
  check_samples(x, num_samples, replacement);
  const auto exponential = [](float u) { return static_cast<float>(-std::log(u + 0x1p-25)); };
  if (!replacement || num_samples == 1) {
    return topk(x / noise_beside(x, x.shape(), exponential), num_samples).second;
  }
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  sizes.insert(sizes.end() - 1, num_samples);
  return argmax(unsqueeze(x, -2) / noise_beside(x, Shape(sizes), exponential), -1);
}

Tensor bernoulli(const Tensor& of) {
  ops::check_operands("bernoulli", {of});
  const Tensor x = contiguous(of.detach());
  ops::check_is_whole("bernoulli", x);
  return (noise_beside(x, x.shape(), [](float u) { return u; }) < x).to(x.dtype());
}

}  // namespace kernbench
