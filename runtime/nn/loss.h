// Losses as modules: `CrossEntropyLoss criterion; criterion(logits, targets).backward();`.  Their
// functions are runtime/functional's, with the same arguments.

#pragma once

#include <cstdint>
#include <memory>

#include "runtime/functional/cross_entropy.h"
#include "runtime/functional/losses.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::nn {

using functional::CrossEntropyOptions;
using functional::Reduction;

// A loss of an input and a target.
template <Tensor (*function)(const Tensor&, const Tensor&, Reduction)>
struct LossImpl : Module {
  explicit LossImpl(Reduction of = Reduction::mean) : reduction(of) {}
  Tensor forward(const Tensor& input, const Tensor& target) const {
    return function(input, target, reduction);
  }

  Reduction reduction;
};
template <Tensor (*function)(const Tensor&, const Tensor&, Reduction)>
struct Loss : ModuleHolder<LossImpl<function>> {
  using ModuleHolder<LossImpl<function>>::ModuleHolder;
  Loss() : Loss(std::make_shared<LossImpl<function>>()) {}
};
using MSELoss = Loss<functional::mse_loss>;
using L1Loss = Loss<functional::l1_loss>;
using BCEWithLogitsLoss = Loss<functional::binary_cross_entropy_with_logits>;

struct CrossEntropyLossImpl : Module {
  explicit CrossEntropyLossImpl(const CrossEntropyOptions& of = {}) : options(of) {}
  Tensor forward(const Tensor& logits, const Tensor& targets) const {
    return functional::cross_entropy(logits, targets, options);
  }

  CrossEntropyOptions options;
};
struct CrossEntropyLoss : ModuleHolder<CrossEntropyLossImpl> {
  using ModuleHolder<CrossEntropyLossImpl>::ModuleHolder;
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {})
      : ModuleHolder(std::make_shared<CrossEntropyLossImpl>(options)) {}
};

struct NLLLossImpl : Module {
  explicit NLLLossImpl(Reduction of = Reduction::mean, std::int64_t ignored = -100)
      : reduction(of), ignore_index(ignored) {}
  Tensor forward(const Tensor& log_probabilities, const Tensor& targets) const {
    return functional::nll_loss(log_probabilities, targets, reduction, ignore_index);
  }

  Reduction reduction;
  std::int64_t ignore_index;
};
struct NLLLoss : ModuleHolder<NLLLossImpl> {
  using ModuleHolder<NLLLossImpl>::ModuleHolder;
  NLLLoss() : NLLLoss(std::make_shared<NLLLossImpl>()) {}
};

}  // namespace kernbench::nn
