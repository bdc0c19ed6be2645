// Assertions for tests of several ranks.  They throw NumericsError KB-N030 (exit 23) with
// PyTorch's text; for ranks that differ, KB-N020 (exit 24).

#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "runtime/torch/runtime_context.h"

namespace kernbench::testing {

// `ranks` small devices in a ring (topologies/tiny.yaml).  Throws CollectiveError KB-R010 if there
// are less than one.
Topology ring_of(int ranks);

struct Tolerance {
  double relative = 0;
  double absolute = 0;
  bool equal_nan = false;  // whether NaN is close to NaN
};

// The defaults of torch.testing.assert_close: f16 1e-3 and 1e-5, bf16 1.6e-2 and 1e-5, f32 1.3e-6
// and 1e-5.
Tolerance default_tolerance(DType dtype);

// Asserts
// actual - expected
// <= absolute + relative
// expected
// for every element.  An infinity is close only to itself; NaN to nothing, as in torch, or to NaN
// with equal_nan.
// Throws DeviceError KB-M015 if the numbers of elements differ.
void assert_close(const Tensor& actual, std::span<const float> expected,
                  const std::optional<Tolerance>& tolerance = std::nullopt,
                  std::source_location location = std::source_location::current());

// Asserts equal bits; NaN equals NaN, and -0 does not equal 0.
void assert_equal(const Tensor& actual, std::span<const float> expected,
                  std::source_location location = std::source_location::current());

// Asserts that `actual` is the sum of the ranks' contributions, each addition rounded to its type,
// in any order.  The error is at most (P - 1) u S, where S is the sum of the magnitudes and u the
// unit roundoff of the type (Jeannerod and Rump): a proven bound, which grows with the number of
// ranks.  Where a rank contributed NaN, the sum is NaN.
void assert_is_sum(const Tensor& actual, const std::vector<std::vector<float>>& contributions,
                   std::source_location location = std::source_location::current());

// Asserts that x has the same bits on all ranks of the group.  It is a collective: every member
// calls it.
void assert_equal_on_ranks(RuntimeContext& torch, const Tensor& x,
                           const distributed::ProcessGroup& group = {},
                           std::source_location location = std::source_location::current());

}  // namespace kernbench::testing
