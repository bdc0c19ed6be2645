#include "runtime/autograd/kept_results.h"

#include <utility>

#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"

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

}  // namespace

KeepingScope::KeepingScope(runtime::Simulation& simulation, KeptResults* results)
    : current_(keeper_of(simulation)), before_(std::exchange(current_, results)) {}

std::vector<Tensor> kept_or_computed(std::string_view op, const Tensor& on,
                                     runtime::FunctionRef<std::vector<Tensor>()> compute) {
  KeptResults* const kept = keeper_of(*on.storage()->simulation);
  if (kept == nullptr || !keeps(*kept, op)) return compute();
  if (!kept->gives) {
    std::vector<Tensor> results = compute();
    kept->results.emplace_back(results.begin(), results.end());
    return results;
  }
  KB_CHECK(kept->next < kept->results.size(), "a checkpoint's second call keeps more results");
  std::vector<Tensor> results;
  for (const SavedTensor& result : kept->results[kept->next++]) {
    results.push_back(result.get().detach());
  }
  return results;
}

}  // namespace kernbench::autograd
