#include "runtime/expert_parallel/checks.h"

#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::moe {

int check_experts(std::string_view user, const RuntimeContext& torch,
                  const distributed::ProcessGroup& group, std::int64_t num_experts) {
  const int ranks = torch.distributed.get_world_size(group);
  if (ranks < 1) {
    throw CollectiveError(
        "KB-C029", "{}: this rank is not in the group: the ranks of the group alone call it", user);
  }
  if (num_experts >= 1 && num_experts % ranks == 0) return ranks;
  throw CollectiveError("KB-C029",
                        "{}: Number of experts should be a multiple of expert model "
                        "parallel_size: {} experts and {} ranks",
                        user, num_experts, ranks);
}

void check_top_k(std::string_view user, std::int64_t top_k, std::int64_t num_experts) {
  if (top_k >= 1 && top_k <= num_experts) return;
  throw CollectiveError("KB-C029",
                        "{}: selected index k out of range: top_k is {}, and there are {} experts",
                        user, top_k, num_experts);
}

}  // namespace kernbench::moe
