// One kernel that computes several operators, elementwise or along rows.

#pragma once

#include <cstddef>
#include <vector>

#include "runtime/ops/elements.h"

namespace kernbench::ops {

// The operators of a kernel, each after those that compute its operands.  Values are numbered:
// first those that are loaded, then the results of the steps.
class FusedKernel {
 public:
  struct Step {
    RowFunction function;
    std::vector<std::size_t> operands;
    std::vector<std::size_t> last_uses;  // the values that no later step needs
  };

  FusedKernel(std::size_t loads, std::vector<Step> steps, std::vector<std::size_t> results);

  // Computes a block of each result from the loaded ones.
  std::vector<tl::Tensor> operator()(tl::Context& tl, std::vector<tl::Tensor> loaded,
                                     const RowBlock& rows) const;
  // The most values of a block that are in scratch at a time, beside what a function makes.
  std::size_t most_values() const { return most_values_; }

  struct Owns;  // it refers to nothing (KernelFunction)

 private:
  void find_last_uses();

  std::size_t loads_;
  std::vector<Step> steps_;
  std::vector<std::size_t> results_;
  std::size_t most_values_ = 0;
};

}  // namespace kernbench::ops
