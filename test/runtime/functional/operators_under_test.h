// Operators on a small device: what they compute, compared with plain loops in double.

#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/functional/functional.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

using Floats = std::vector<float>;

// 3 cubes of 2 PEs.
inline Topology six_pe_topology() {
  return round_topology(SipTopology::ring_1d, 2, 1, 3, 1);
}

// Placements over the PEs of one cube, and over the cubes.
inline DPPolicy on_pes(Shard pe) {
  return {.cube = Shard::replicate, .pe = pe, .num_cubes = 1, .num_pes = 2};
}
inline DPPolicy on_cubes(Shard cube) {
  return {.cube = cube, .pe = Shard::replicate, .num_cubes = 3, .num_pes = 1};
}
inline DPPolicy on_all(Shard cube, Shard pe) {
  return {.cube = cube, .pe = pe, .num_cubes = 3, .num_pes = 2};
}

// Of a gradient of what lies so.
inline DPPolicy gradient_policy(DPPolicy dp) {
  if (dp.cube == Shard::partial) dp.cube = Shard::replicate;
  if (dp.pe == Shard::partial) dp.pe = Shard::replicate;
  return dp;
}

// Whole numbers from -3 to 3: their sums of products are exact in f32, and of few in f16.
inline Floats small_integers(std::int64_t count, int seed) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((i * 5 + i / 7 * 3 + seed * 11) % 7 - 3));
  }
  return elements;
}

// Multiples of 1/16 between -2 and 2.
inline Floats sixteenths(std::int64_t count, int seed) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((i * 29 + seed * 13) % 65 - 32) / 16);
  }
  return elements;
}

class OperatorsUnderTest {
 public:
  explicit OperatorsUnderTest(const Topology& topology = six_pe_topology()) : torch(topology) {}

  Tensor tensor(const Shape& shape, const Floats& elements,
                const DPPolicy& dp = DPPolicy::replicated(), DType dtype = DType::f32,
                const std::string& name = {}) {
    Tensor made = torch.empty(shape, {.dtype = dtype, .dp = dp, .name = name});
    made.copy_(RuntimeContext::tensor(elements, shape));
    if (dp == on_cubes(Shard::partial) || dp == on_pes(Shard::partial)) spread(made, elements);
    return made;
  }
  // A leaf of small integers.
  Tensor leaf(const Shape& shape, int seed, const DPPolicy& dp = DPPolicy::replicated(),
              DType dtype = DType::f32) {
    Tensor made = tensor(shape, small_integers(shape.numel(), seed), dp, dtype);
    made.requires_grad_();
    return made;
  }

  RuntimeContext torch;

 private:
  // Makes every holder's summand another one: i of holder i, and what is missing of the first.
  static void spread(Tensor& partial, Floats elements) {
    const Shape& shape = partial.shape();
    for (std::size_t i = 1; i < partial.shards().size(); ++i) {
      const auto summand = static_cast<float>(i);
      for (float& element : elements) element -= summand;
      partial.copy_shard_(i, RuntimeContext::tensor(Floats(elements.size(), summand), shape));
    }
    partial.copy_shard_(0, RuntimeContext::tensor(elements, shape));
  }
};

// A function of tensors whose gradients are compared with differences of it.
using Function = std::function<Tensor(const std::vector<Tensor>&)>;

struct Difference {
  double third_derivative = 0;  // of any element of the result along any element of an input
  double rounding = 1;          // of an element of the result, in units of 2^-24 of its magnitude
};

// Compares every element of every gradient of l = sum(w f(x...)), for weights w between 1 and 2,
// with (l(x + h) - l(x - h)) / 2 h.  That is off by at most
//   h^2 / 6 sum(w) f'''  +  sum(w |f|) rounding 2^-24 / h
// and the gradient itself by as much rounding as l has; x + h is exact for h = 1/64 and multiples
// of 1/16.
inline void check_gradients(OperatorsUnderTest& dut, const Function& function,
                            const std::vector<Tensor>& inputs, const Difference& difference) {
  constexpr double kStep = 1.0 / 64;
  const auto weight = [](std::size_t i) { return 1 + static_cast<double>(i % 4) / 4; };
  for (Tensor input : inputs) input.requires_grad_();
  const Tensor result = function(inputs);
  Floats weights;
  double magnitude = 0;
  double sum_of_weights = 0;
  const Floats elements = result.to_vector();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    weights.push_back(static_cast<float>(weight(i)));
    magnitude += weight(i) * std::abs(static_cast<double>(elements[i]));
    sum_of_weights += weight(i);
  }
  Tensor gradient = dut.torch.empty(result.shape(), {.dp = gradient_policy(result.dp())});
  result.backward(gradient.copy_(RuntimeContext::tensor(weights, result.shape())));
  const double rounding = (magnitude + 1) * difference.rounding * std::ldexp(1.0, -24) / kStep;
  const double truncation = kStep * kStep / 6 * sum_of_weights * difference.third_derivative;
  const NoGradGuard no_grad(dut.torch);
  const auto value_at = [&] {
    double value = 0;
    const Floats computed = function(inputs).to_vector();
    for (std::size_t i = 0; i < computed.size(); ++i) value += weight(i) * computed[i];
    return value;
  };
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    Tensor input = inputs[k];
    const Floats at = input.to_vector();
    const Floats gradients = input.grad().to_vector();
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto moved = [&](double by) {
        Floats elsewhere = at;
        elsewhere[i] = static_cast<float>(at[i] + by);
        input.copy_(RuntimeContext::tensor(elsewhere, input.shape()));
        return value_at();
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      INFO("input " << k << ", element " << i);
      CHECK(std::abs(slope - gradients[i]) <= truncation + rounding);
    }
    input.copy_(RuntimeContext::tensor(at, input.shape()));
  }
}

}  // namespace kernbench::test
