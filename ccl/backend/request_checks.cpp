#include "ccl/backend/request_checks.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

using distributed::Block;

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
  throw CollectiveError(
      "KB-C013",
      fmt::format("tensor '{}' ({}) lies on {} PEs: it spans {} SIPs, but a rank is one SIP; "
                  "num_sips is for ranks that are PEs (world_size in ccl.yaml)",
                  x.name(), to_string(x.dp()), shards.size(),
                  shards.back().sip - shards.front().sip + 1));
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
    throw CollectiveError(
        "KB-C013", fmt::format("tensor '{}' ({}) takes {} of its {} elements: of one whose holders "
                               "have summands, all must be taken at a time; use another DPPolicy",
                               x.name(), to_string(x.dp()), taken, x.numel()));
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

}  // namespace kernbench::ccl
