// Operators on a small device: what they compute, compared with plain loops in double.

#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

using Floats = std::vector<float>;

inline constexpr Shard kR = Shard::replicate;
inline constexpr Shard kRow = Shard::row_wise;
inline constexpr Shard kColumn = Shard::column_wise;
inline constexpr Shard kPartial = Shard::partial;

template <class Action>
std::string error(const Action& action) {
  return error_of<DeviceError>(action);
}

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

// The placement of the gradient of a tensor with this placement.
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
                const DPPolicy& dp = DPPolicy::on_one_pe(), DType dtype = DType::f32,
                const std::string& name = {}) {
    Tensor made = torch.empty(shape, {.dtype = dtype, .dp = dp, .name = name});
    made.copy_(RuntimeContext::tensor(elements, shape));
    if (dp == on_cubes(Shard::partial) || dp == on_pes(Shard::partial)) spread(made, elements);
    return made;
  }
  // A leaf of small integers.
  Tensor leaf(const Shape& shape, int seed, const DPPolicy& dp = DPPolicy::on_one_pe(),
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

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

}  // namespace kernbench::test
