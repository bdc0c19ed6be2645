#include "ccl/backend/request_checks.h"

#include <algorithm>
#include <utility>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

using distributed::Block;
using distributed::CollectiveCall;
using distributed::CollectiveKind;

namespace {

// Calls visit(tensor) once for consecutive blocks of one tensor, which is the common case.
template <class Visit>
void for_each_tensor(const std::vector<Block>& blocks, Visit visit) {
  const Tensor::Storage* last = nullptr;
  for (const Block& block : blocks) {
    if (block.tensor.storage().get() != std::exchange(last, block.tensor.storage().get())) {
      visit(block.tensor);
    }
  }
}

void check_lies_on_one_sip(const Tensor& x) {
  const std::vector<ShardInfo>& shards = x.shards();
  if (shards.front().sip == shards.back().sip) return;
  throw CollectiveError("KB-C013",
                        "tensor '{}' ({}) lies on {} PEs: it spans {} SIPs, but a rank is one SIP; "
                        "num_sips is for ranks that are PEs (world_size in ccl.yaml)",
                        x.name(), to_string(x.dp()), shards.size(),
                        shards.back().sip - shards.front().sip + 1);
}

// Refuses to write only a part of a partial tensor, since the whole becomes replicated.
void check_taken(const std::vector<Block>& takes) {
  for_each_tensor(takes, [&](const Tensor& x) {
    if (!is_partial(x.dp())) return;
    std::int64_t taken = 0;
    for (const Block& other : takes) {
      if (other.tensor.storage() == x.storage()) taken += other.count;
    }
    if (taken == x.numel()) return;
    throw CollectiveError("KB-C013",
                          "tensor '{}' ({}) takes {} of its {} elements: of one whose holders have "
                          "summands, all must be taken at a time; use another DPPolicy",
                          x.name(), to_string(x.dp()), taken, x.numel());
  });
}

}  // namespace

void check_blocks(const distributed::CollectiveCall& request) {
  for_each_tensor(request.gives, check_lies_on_one_sip);
  for_each_tensor(request.takes, check_lies_on_one_sip);
  check_taken(request.takes);
}

void mark_replicated(const std::vector<Block>& takes) {
  for_each_tensor(takes, [](const Tensor& x) { runtime::mark_replicated(*x.storage()); });
}

void refuse_for_pes(std::string_view what, int pes) {
  throw CollectiveError("KB-C023",
                        "ahbm runs {} between SIPs only, but with world_size in ccl.yaml the ranks "
                        "are {} PEs; take it out",
                        what, pes);
}

// Only the root has the list of a gather or a scatter.
void check_for_pes(const CollectiveCall& request, int pes) {
  const distributed::CollectiveTraits& traits = distributed::traits_of(request.kind);
  if (traits.root != distributed::Root::none && traits.has_list()) {
    refuse_for_pes(traits.op_type, pes);
  }
  const auto& all = request.gives.size() > 1 ? request.gives : request.takes;
  const auto differs = [&](const Block& block) { return block.count != all.front().count; };
  if (std::ranges::any_of(request.gives, differs) || std::ranges::any_of(request.takes, differs)) {
    refuse_for_pes("blocks of unequal sizes", pes);
  }
}

}  // namespace kernbench::ccl
