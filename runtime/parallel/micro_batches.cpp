#include "runtime/parallel/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/misuse.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::nn::parallel {

namespace {

bool is_power_of_two(int number) {
  return number > 0 && std::has_single_bit(static_cast<unsigned>(number));
}

}  // namespace

MicroBatches::MicroBatches(RuntimeContext& torch, const MicroBatchesOptions& options)
    : count_(options.count),
      ranks_(torch.distributed.get_world_size(options.process_group)),
      rank_(torch.distributed.get_rank(options.process_group)) {
  if (rank_ < 0) distributed::wrong_argument("MicroBatches: the caller is not in the group");
  if (!is_power_of_two(count_) || !is_power_of_two(ranks_) || ranks_ > count_) {
    distributed::wrong_argument(
        fmt::format("MicroBatches: {} micro-batches over {} ranks; powers of two are wanted, and "
                    "no fewer micro-batches than ranks",
                    count_, ranks_));
  }
  if (torch.distributed.least_reproducible() != Reproducible::pairs) {
    distributed::wrong_argument(
        "MicroBatches: ranks must be added in pairs; give RuntimeOptions{.reproducible = "
        "Reproducible::pairs}, or set KERNBENCH_WORLD_INVARIANT=1");
  }
}

Tensor MicroBatches::of(const Tensor& batch, int round) const {
  if (round < 0 || round >= rounds()) {
    distributed::wrong_argument(
        fmt::format("MicroBatches: round {} of {}, which begin at 0", round, rounds()));
  }
  const std::int64_t samples = batch.dim() == 0 ? 0 : batch.size(0);
  if (samples == 0 || samples % count_ != 0) {
    distributed::wrong_argument(
        fmt::format("MicroBatches: {} are no batch of {} micro-batches of equal size",
                    to_string(batch.shape()), count_));
  }
  const std::int64_t each = samples / count_;
  return narrow(batch, 0, index(round) * each, each);
}

void MicroBatches::take(const std::vector<Tensor>& parameters) {
  if (std::ranges::none_of(parameters, [](const Tensor& one) { return one.grad().defined(); })) {
    distributed::wrong_argument(
        "MicroBatches::take: no parameter has a gradient; it is called after each backward(), for "
        "torch's DistributedDataParallel or fully_shard");
  }
  check_are_the_same(parameters);
  if (rounds() == 1) return;
  Gradients gradients;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    // A view of a bucket would become the next round's.
    gradients.push_back(gradient.defined() ? gradient.clone() : gradient);
    parameter.zero_grad();
  }
  add(std::move(gradients));
  if (++taken_ < rounds()) return;
  taken_ = 0;
  const Gradients sums = std::move(partial_.back());
  partial_.clear();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (sums[i].defined()) parameters[i].mutable_grad() = sums[i].mul_(1.0 / rounds());
  }
}

void MicroBatches::check_are_the_same(const std::vector<Tensor>& parameters) {
  if (taken_ == 0) parameters_ = parameters;
  const bool are_the_same =
      std::ranges::equal(parameters, parameters_, {}, &Tensor::storage, &Tensor::storage);
  if (are_the_same) return;
  distributed::wrong_argument(fmt::format(
      "MicroBatches::take: these {} parameters are not the {} of the step's first round; "
      "it is called once in a round, with all parameters",
      parameters.size(), parameters_.size()));
}

// Sums are kept as the digits of a binary number: two of as many rounds make one of twice as many.
// A parameter without a gradient in some rounds has zeros there.
void MicroBatches::add(Gradients gradients) {
  for (std::size_t i = 0;; ++i) {
    if (i == partial_.size()) partial_.emplace_back();
    Gradients& before = partial_[i];
    if (before.empty()) {
      before = std::move(gradients);
      return;
    }
    for (std::size_t j = 0; j < gradients.size(); ++j) {
      if (!before[j].defined()) continue;
      gradients[j] = gradients[j].defined() ? before[j] + gradients[j] : before[j];
    }
    before.clear();
  }
}

}  // namespace kernbench::nn::parallel
