// Another way to compute attention that a rank's functions take for a while, such as over a
// sequence that several ranks share.

#pragma once

#include <functional>

#include "runtime/functional/functional.h"
#include "runtime/functional/packed_attention.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// Stands in for scaled_dot_product_attention() and for varlen_attn(), which has checked its
// arguments.
struct AttentionOverride {
  std::function<Tensor(const Tensor& query, const Tensor& key, const Tensor& value,
                       const nn::functional::AttentionOptions& options)>
      scaled_dot_product;
  std::function<Tensor(const PackedAttention& attention, const AttentionInputs& inputs)> packed;
};

// Returns the caller's; null: its functions compute as they are.
const AttentionOverride* find_attention_override(const Tensor& of);

// Its functions take this one, while it lives.  The rank that made it must destroy it.
class AttentionOverrideGuard {
 public:
  AttentionOverrideGuard(runtime::Simulation& simulation, const AttentionOverride& taken);
  ~AttentionOverrideGuard();
  AttentionOverrideGuard(const AttentionOverrideGuard&) = delete;
  AttentionOverrideGuard& operator=(const AttentionOverrideGuard&) = delete;

 private:
  const AttentionOverride*& current_;
  const AttentionOverride* const before_;
};

}  // namespace kernbench::ops
