#include "runtime/ops/fused_kernel.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kernbench::ops {

FusedKernel::FusedKernel(std::size_t loads, std::vector<Step> steps,
                         std::vector<std::size_t> results)
    : loads_(loads), steps_(std::move(steps)), results_(std::move(results)) {
  find_last_uses();
}

void FusedKernel::find_last_uses() {
  std::vector<bool> is_used(loads_ + steps_.size(), false);
  for (const std::size_t result : results_) is_used[result] = true;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    for (const std::size_t operand : steps_[i].operands) {
      if (!is_used[operand]) steps_[i].last_uses.push_back(operand);
      is_used[operand] = true;
    }
  }
  std::size_t values = loads_;
  for (const Step& step : steps_) {
    most_values_ = std::max(most_values_, ++values);
    values -= step.last_uses.size();
  }
}

std::vector<tl::Tensor> FusedKernel::operator()(tl::Context& tl, std::vector<tl::Tensor> loaded,
                                                const RowBlock& rows) const {
  std::vector<std::optional<tl::Tensor>> values(loads_ + steps_.size());
  for (std::size_t i = 0; i < loads_; ++i) values[i] = std::move(loaded[i]);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    std::vector<tl::Tensor> operands;
    for (const std::size_t operand : steps_[i].operands) operands.push_back(*values[operand]);
    values[loads_ + i] = steps_[i].function(tl, operands, rows);
    for (const std::size_t value : steps_[i].last_uses) values[value].reset();
  }
  std::vector<tl::Tensor> results;
  for (const std::size_t result : results_) results.push_back(*values[result]);
  return results;
}

}  // namespace kernbench::ops
