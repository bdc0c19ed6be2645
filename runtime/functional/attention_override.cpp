#include "runtime/functional/attention_override.h"

#include "runtime/simulation/attachments.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::ops {

namespace {

struct Overrides final : runtime::PerRank<const AttentionOverride*> {};

const AttentionOverride*& override_of_caller(runtime::Simulation& simulation) {
  return simulation.attachments().get<Overrides>().of(simulation.local());
}

}  // namespace

const AttentionOverride* find_attention_override(const Tensor& of) {
  if (!of.defined() || of.is_host()) return nullptr;
  return override_of_caller(*of.storage()->simulation);
}

AttentionOverrideGuard::AttentionOverrideGuard(runtime::Simulation& simulation,
                                               const AttentionOverride& taken)
    : current_(override_of_caller(simulation)), before_(current_) {
  current_ = &taken;
}

AttentionOverrideGuard::~AttentionOverrideGuard() {
  current_ = before_;
}

}  // namespace kernbench::ops
