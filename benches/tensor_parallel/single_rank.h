// The same training step on one rank and one PE: the reference for ranks and PEs that share a model
// (ADR-0135).

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "benches/bench/context_set.h"
#include "benches/tensor_parallel/expected.h"
#include "benches/tensor_parallel/training_step.h"

namespace kernbench::benches::tensor_parallel {

// The results of a step.
struct ExpectedStep {
  Expected y;
  Expected dx;
  std::vector<Expected> gradients;  // of the parameters
};

// Builds a rank's model for a step.
using BuildWith = std::function<RankModel(RuntimeContext& torch, const StepInput& input)>;

// What a single rank runs, on one SIP of a machine, in contexts that are no part of the results of
// `whole`.
struct SingleRank {
  ContextSet& whole;
  const Topology& topology;
  const BuildWith& build;
  const DenseModel& values;
};

// Every element must be equal, since all sums are exact.
// Throws UsageError KB-U012 if an element is beyond the range in which the type is exact.
ExpectedStep expect_equal(const SingleRank& single, const StepInput& input);

// The factor from the largest error of the single rank in its own type to the bound.
inline constexpr double kBoundOverSample = 4;
inline constexpr double kSumsInF32 = 8;

// The step in f32.  The bound of a tensor is taken from a sample: the same step in the type of
// `input`; for f32 in bf16, with its errors scaled to roundings of f32, and kSumsInF32 times the
// bound, since both steps then round in their sums too.  A rounding of the tensor's largest element
// is always allowed.  In a matrix with 3 hidden columns, which belong to
// the attention, queries, keys and values of heads with `head` columns have bounds of their own.
ExpectedStep expect_near(const SingleRank& single, const StepInput& input, std::int64_t head);

}  // namespace kernbench::benches::tensor_parallel
