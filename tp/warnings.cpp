#include "tp/warnings.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::tp {

namespace {

struct Warned : runtime::Attachment {
  void forget_ranks() override {}

  bool of_sequence_parallel = false;
  bool of_order_of_param_gather = false;
};

}  // namespace

void warn_if_not_sequence_parallel(RuntimeContext& torch, std::string_view layer, int world_size) {
  bool& has_warned = simulation_of(torch).attachments().get<Warned>().of_sequence_parallel;
  if (world_size > 1 || has_warned) return;
  has_warned = true;
  fmt::print(stderr,
             "kernbench: warning: [KB-T007] `sequence_parallel` of '{}' is set to `True`, but "
             "tensor model parallel size is {}. Disabling sequence parallel.\n",
             visible(layer), world_size);
}

void warn_of_order_of_param_gather(RuntimeContext& torch) {
  Warned& warned = simulation_of(torch).attachments().get<Warned>();
  if (std::exchange(warned.of_order_of_param_gather, true)) return;
  fmt::print(stderr,
             "kernbench: warning: [KB-T008] The next bucket's parameter all-gather operation has "
             "already been dispatched. This may be caused by a mismatch between the order of "
             "parameter registration and forward pass execution, which will hurt the "
             "communication-computation overlap performance.\n");
}

}  // namespace kernbench::tp
