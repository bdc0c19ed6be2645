#include "runtime/autograd/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/kept_results.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/random/generator.h"
#include "runtime/simulation/run_log.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/hbm_allocator.h"

namespace kernbench::nn::utils {

namespace {

using autograd::KeptResults;
using autograd::SavedTensor;
using Function = std::function<Tensor(const std::vector<Tensor>& inputs)>;

random::Generator& generator_of(const Tensor& tensor) {
  return random::Generator::of(*tensor.storage()->simulation, tensor.device());
}

// While it lives, the tensor's device draws the numbers that `state` draws; later it goes on.
class RestoredGenerator {
 public:
  RestoredGenerator(const Tensor& tensor, const random::Generator& state)
      : generator_(generator_of(tensor)), present_(std::exchange(generator_, state)) {}
  ~RestoredGenerator() { generator_ = present_; }
  RestoredGenerator(const RestoredGenerator&) = delete;
  RestoredGenerator& operator=(const RestoredGenerator&) = delete;

 private:
  random::Generator& generator_;
  const random::Generator present_;
};

struct SavedInput {
  SavedTensor tensor;
  bool requires_grad = false;
};

// A function and its inputs, with which a checkpoint calls it again.
struct Checkpoint {
  Function function;
  std::vector<SavedInput> inputs;
  random::Generator generator;
  std::shared_ptr<KeptResults> kept;  // null: none

  Tensor call_again(const std::vector<Tensor>& with, const Tensor& dy) const;
  std::vector<Tensor> differentiate(const Tensor& dy) const;
};

Tensor Checkpoint::call_again(const std::vector<Tensor>& with, const Tensor& dy) const {
  runtime::Simulation& simulation = *dy.storage()->simulation;
  const RestoredGenerator restored(dy, generator);
  const runtime::MadeAs results(simulation, MemoryKind::temporary);
  const runtime::InModule modules(simulation.run_log(), simulation.local().rank,
                                  {.is_recomputed = true});
  if (kept != nullptr) kept->begin_again();
  const autograd::KeepingScope scope(simulation, kept.get());
  Tensor y = function(with);
  if (kept != nullptr) kept->check_all_taken();
  return y;
}

// Computes the function again, recorded, and the gradients of its inputs.
std::vector<Tensor> Checkpoint::differentiate(const Tensor& dy) const {
  const EnableGradGuard grad(*dy.storage()->simulation);
  std::vector<Tensor> again;
  for (const SavedInput& input : inputs) {
    again.push_back(input.tensor.get());
    if (!again.back().defined()) continue;
    again.back() = again.back().detach();
    if (input.requires_grad) again.back().requires_grad_();
  }
  call_again(again, dy).backward(dy);
  // Queued kernels may keep the graph, and so its leaves, longer than their gradients are needed.
  std::vector<Tensor> gradients;
  for (const Tensor& input : again) {
    gradients.push_back(input.defined() ? std::exchange(input.mutable_grad(), {}) : Tensor());
  }
  return gradients;
}

// The function's parameters are no inputs of the operator: they get their gradients whatever is
// asked for.
void check_are_all(const autograd::AskedInputs& asked) {
  if (asked.are_all()) return;
  throw CollectiveError(
      "KB-A031",
      "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
      "`inputs` parameter to .backward(), and so with a pipeline schedule that runs backward in "
      "two "
      "halves (I and W): take one with whole backwards (B)");
}

}  // namespace

Tensor checkpoint(const Function& function, const std::vector<Tensor>& inputs) {
  return checkpoint(function, inputs, CheckpointContexts());
}

Tensor checkpoint(const Function& function, const std::vector<Tensor>& inputs,
                  CheckpointContexts contexts) {
  runtime::check_on_device(inputs.empty() ? Tensor() : inputs.front(), "checkpoint");
  runtime::Simulation& simulation = *inputs.front().storage()->simulation;
  Checkpoint again{function, {}, generator_of(inputs.front()), nullptr};
  if (contexts.policy) again.kept = std::make_shared<KeptResults>(std::move(contexts.policy));
  Tensor y;
  {
    const NoGradGuard no_grad(simulation);
    std::optional<autograd::KeepingScope> scope;
    if (again.kept != nullptr) scope.emplace(simulation, again.kept.get());
    y = function(inputs);
  }
  for (const Tensor& input : inputs) {
    again.inputs.push_back({SavedTensor(input), input.defined() && input.requires_grad()});
  }
  return autograd::record("checkpoint", std::move(y), inputs,
                          [again = std::move(again)](const Tensor& dy,
                                                     const autograd::AskedInputs& asked) {
                            check_are_all(asked);
                            return again.differentiate(dy);
                          });
}

CheckpointContexts create_selective_checkpoint_contexts(SelectiveCheckpointPolicy policy) {
  return {std::move(policy)};
}

CheckpointContexts create_selective_checkpoint_contexts(
    std::initializer_list<std::string_view> ops_to_save) {
  std::vector<std::string> saved;
  for (const std::string_view op : ops_to_save) {
    if (std::ranges::find(autograd::kKeepableOperators, op) ==
        std::ranges::end(autograd::kKeepableOperators)) {
      throw CollectiveError("KB-A033",
                            "create_selective_checkpoint_contexts: the result of '{}' cannot be "
                            "kept; those of these operators can: {}",
                            op, fmt::join(autograd::kKeepableOperators, ", "));
    }
    saved.emplace_back(op);
  }
  return {[saved = std::move(saved)](std::string_view op) {
    return std::ranges::find(saved, op) == saved.end() ? CheckpointPolicy::PREFER_RECOMPUTE
                                                       : CheckpointPolicy::MUST_SAVE;
  }};
}

Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor& x)>>& functions,
                             std::int64_t segments, const Tensor& input) {
  const std::int64_t count = std::ssize(functions);
  if (segments < 1 || segments > count) {
    throw CollectiveError("KB-A033",
                          "checkpoint_sequential: {} segments of {} functions; from 1 to as many "
                          "as there are functions are wanted",
                          segments, count);
  }
  const std::int64_t length = count / segments;
  const auto call = [functions](std::int64_t begin, std::int64_t end, Tensor x) {
    for (std::int64_t i = begin; i < end; ++i) x = functions[static_cast<std::size_t>(i)](x);
    return x;
  };
  Tensor x = input;
  const std::int64_t last = length * (segments - 1);
  for (std::int64_t begin = 0; begin < last; begin += length) {
    x = checkpoint(
        [call, begin, length](const std::vector<Tensor>& in) {
          return call(begin, begin + length, in.front());
        },
        {x});
  }
  return call(last, count, x);
}

namespace {

Bytes count_activations(const Tensor& on) {
  runtime::Simulation& simulation = *on.storage()->simulation;
  runtime::free_unheld_space(simulation, on.device());
  return simulation.allocator(on.device()).by_kind()[MemoryKind::activation];
}

Bytes block_bytes(const Tensor& tensor) {
  Bytes bytes = 0;
  for (const sim::DeviceBuffer& buffer : tensor.storage()->buffers()) {
    bytes += sim::HbmAllocator::block_bytes(buffer.bytes());
  }
  return bytes;
}

}  // namespace

LayerActivations measure_activations(const std::function<Tensor(const Tensor& x)>& layer,
                                     const Tensor& input) {
  runtime::check_on_device(input, "measure_activations");
  runtime::Simulation& simulation = *input.storage()->simulation;
  const EnableGradGuard grad(simulation);
  const RestoredGenerator restored(input, random::Generator(generator_of(input)));
  const runtime::MadeAs results(simulation, MemoryKind::temporary);
  const Bytes before = count_activations(input);
  const Tensor x = ops::make_like(input, "activation", input.shape(), input.dtype(),
                                  ops::placement_of(input));
  runtime::mark_memory(x, MemoryKind::activation);
  x.requires_grad_();
  const Tensor y = layer(x);
  return {count_activations(input) - before, block_bytes(x)};
}

std::vector<bool> choose_kept_layers(std::int64_t layers, const LayerActivations& of_each,
                                     Bytes budget) {
  const auto [all, input] = of_each;
  if (layers < 1 || input < 0 || all < input || budget < 0) {
    throw CollectiveError("KB-A033",
                          "choose_kept_layers: {} layers of {} B, their inputs of {} B, within {} "
                          "B; at least one layer is wanted, which keeps at least its input, and "
                          "no negative numbers",
                          layers, all, input, budget);
  }
  const Bytes spare = budget - all - input * (layers - 1);
  if (spare < 0) {
    throw CollectiveError(
        "KB-A033",
        "choose_kept_layers: {} layers whose activations are checkpointed, but those of the last, "
        "take {} B, {} B more than the {} B that are given: one has {} B, its input {} B",
        layers, budget - spare, -spare, budget, all, input);
  }
  const std::int64_t more = all > input ? spare / (all - input) : layers;
  const std::int64_t count = std::min(layers, 1 + more);
  std::vector<bool> kept(static_cast<std::size_t>(layers), false);
  std::fill(kept.end() - count, kept.end(), true);
  return kept;
}

}  // namespace kernbench::nn::utils
