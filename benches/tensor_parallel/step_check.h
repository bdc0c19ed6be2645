// Whether the ranks of a training step have computed what one would have.

#pragma once

#include <cstdint>
#include <span>

#include "benches/tensor_parallel/dense_step.h"
#include "benches/tensor_parallel/training_step.h"

namespace kernbench::benches {

struct StepCheck {
  std::int64_t checked = 0;  // elements, over all ranks
  std::int64_t wrong = 0;    // beyond their bound
  std::int64_t unequal = 0;  // of those that all ranks have: in other bits than rank 0's
  double worst = 0;          // the largest error over its bound
  double error = 0;          // of the worst tensor: root mean square, over that of its values
  double bound = 0;          // of the tensor that is bounded worst, likewise
};

// y, the gradient of x, and the gradients of all parameters, of every rank.  Host reads.
StepCheck check_step(std::span<const RankStep> ranks, const StepInput& input,
                     const DenseStep& expected);

}  // namespace kernbench::benches
