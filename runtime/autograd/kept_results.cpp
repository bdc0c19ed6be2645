#include "runtime/autograd/kept_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "runtime/simulation/simulation.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::autograd {

namespace {

struct Keepers final : runtime::PerRank<KeptResults*> {};

bool keeps(const KeptResults& results, std::string_view op) {
  using nn::utils::CheckpointPolicy;
  const CheckpointPolicy policy = results.policy(op);
  return policy == CheckpointPolicy::MUST_SAVE || policy == CheckpointPolicy::PREFER_SAVE;
}

KeptResults*& keeper_of(runtime::Simulation& simulation) {
  return simulation.attachments().get<Keepers>().of(simulation.local());
}

// "matmul([4, 8] f32 (cube=...), [8, 2] f32 (cube=...))", without the names of tensors.
std::string describe_call(std::string_view op, const std::vector<Tensor>& inputs) {
  std::vector<std::string> forms;
  for (const Tensor& input : inputs) {
    forms.push_back(fmt::format("{} {} ({})", to_string(input.shape()), name_of(input.dtype()),
                                to_string(runtime::placed(input))));
  }
  return fmt::format("{}({})", op, fmt::join(forms, ", "));
}

[[noreturn]] void refuse_recomputation(std::size_t number, const std::string& first,
                                       const std::string& again) {
  throw CollectiveError(
      "KB-A034",
      "torch.utils.checkpoint: A different number of tensors was saved during the original forward "
      "and recomputation, or others: kept result {} is in the forward that of {}, in the "
      "recomputation that of {}; the function must call the same operators both times, and "
      "backward() under the same settings (such as context_parallel()) as the forward",
      number, first, again);
}

constexpr const char* kNone = "no operator";

}  // namespace

void KeptResults::begin_again() {
  gives = true;
  next = 0;
}

void KeptResults::check_all_taken() const {
  if (next < entries.size()) refuse_recomputation(next, entries[next].call, kNone);
}

KeepingScope::KeepingScope(runtime::Simulation& simulation, KeptResults* results)
    : current_(keeper_of(simulation)), before_(std::exchange(current_, results)) {}

std::vector<Tensor> kept_or_computed(std::string_view op, const std::vector<Tensor>& inputs,
                                     runtime::FunctionRef<std::vector<Tensor>()> compute) {
  KeptResults* const kept = keeper_of(*inputs.front().storage()->simulation);
  if (kept == nullptr || !keeps(*kept, op)) return compute();
  std::string call = describe_call(op, inputs);
  if (!kept->gives) {
    std::vector<Tensor> results = compute();
    kept->entries.push_back({std::move(call), {results.begin(), results.end()}});
    return results;
  }
  const std::size_t number = kept->next++;
  if (number >= kept->entries.size()) refuse_recomputation(number, kNone, call);
  const KeptResults::Entry& entry = kept->entries[number];
  if (entry.call != call) refuse_recomputation(number, entry.call, call);
  std::vector<Tensor> results;
  for (const SavedTensor& result : entry.results) results.push_back(result.get().detach());
  return results;
}

}  // namespace kernbench::autograd
