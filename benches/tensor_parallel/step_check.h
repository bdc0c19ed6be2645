// Checks that the ranks of a training step have computed what a single rank would.

#pragma once

#include <cstdint>
#include <span>

#include "benches/tensor_parallel/single_rank.h"
#include "benches/tensor_parallel/training_step.h"

namespace kernbench::benches::tensor_parallel {

struct StepCheck {
  std::int64_t checked = 0;  // elements, over all ranks
  std::int64_t wrong = 0;    // beyond their bound
  std::int64_t unequal = 0;  // replicated elements whose bits differ from rank 0's
  double worst = 0;          // the largest error over its bound
  double error = 0;          // of the worst tensor: root mean square, over that of its values
  double bound = 0;          // of the tensor that is bounded worst, likewise
};

// Checks y, the gradient of x, and the gradients of all parameters, on every rank, by host reads.
StepCheck check_step(std::span<const RankStep> ranks, const StepInput& input,
                     const ExpectedStep& expected);

}  // namespace kernbench::benches::tensor_parallel
