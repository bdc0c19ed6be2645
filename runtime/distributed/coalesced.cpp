// torch.distributed's collectives of several tensors in one call.

#include <fmt/format.h>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/misuse.h"

namespace kernbench::distributed {

namespace {

constexpr std::string_view kAllReduce = "all_reduce_coalesced";
constexpr std::string_view kAllGather = "all_gather_coalesced";

void check_one_dtype(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() == tensors.front().dtype()) continue;
    wrong_argument(
        fmt::format("Invalid usage of tensors with different dtypesFound torch.{} and  torch.{}",
                    torch_dtype_of(tensors.front().dtype()), torch_dtype_of(tensor.dtype())));
  }
}

}  // namespace

// A rank's collectives of a group end in the order of their issue, so the last one's Work is the
// Work of all.
Work DistributedContext::State::join_works(std::vector<Work> works, bool is_async) {
  std::vector<Tensor> written;
  for (const Work& work : works) {
    written.insert(written.end(), work.written_.begin(), work.written_.end());
  }
  const Work all(works.back().state_, std::move(written));
  if (is_async) return all;
  all.wait();
  return {};
}

Work DistributedContext::all_reduce_coalesced(const std::vector<Tensor>& tensors, ReduceOp op,
                                              const CollectiveOptions& options, Location location) {
  const auto call = state_->begin(kAllReduce, CollectiveKind::all_reduce, options, location);
  if (!call) return {};
  if (tensors.empty()) {
    wrong_argument(fmt::format("{}::allreduce_coalesced: requires non-empty tensor list",
                               state_->backend_class()));
  }
  // All are checked before the first is issued, on which the other ranks then count.
  state_->check_tensors(*call, tensors);
  check_one_dtype(tensors);
  std::vector<Work> works;
  for (const Tensor& x : tensors) {
    CollectiveOptions each = options;
    each.async_op = true;
    auto part = *state_->begin(kAllReduce, CollectiveKind::all_reduce, each, location);
    state_->set_reduce_op(part, op, x.dtype());
    part.gives = part.takes = {whole(x)};
    works.push_back(state_->issue(std::move(part)));
  }
  return state_->join_works(std::move(works), options.async_op);
}

Work DistributedContext::all_gather_coalesced(const std::vector<std::vector<Tensor>>& lists,
                                              const std::vector<Tensor>& inputs,
                                              const CollectiveOptions& options, Location location) {
  const auto call = state_->begin(kAllGather, CollectiveKind::all_gather, options, location);
  if (!call) return {};
  const auto refuse = [&](const std::string& text) {
    wrong_argument(fmt::format("{}::allgather_coalesced: {}", state_->backend_class(), text));
  };
  const auto ranks = static_cast<std::size_t>(state_->member_count(*call->group));
  if (inputs.empty()) refuse("requires non-empty input tensor list");
  if (lists.size() != ranks) refuse("output lists should be equal to world size");
  state_->check_tensors(*call, inputs);
  check_one_dtype(inputs);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    state_->check_tensors(*call, lists[rank]);
    if (lists[rank].size() != inputs.size()) {
      refuse(fmt::format("invalid output size: (expected length {}, got {})", inputs.size(),
                         lists[rank].size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (lists[rank][i].shape() == inputs[i].shape() &&
          lists[rank][i].dtype() == inputs[i].dtype()) {
        continue;
      }
      refuse(
          fmt::format("invalid size of output tensor at index {} (expected length {}, got {}), "
                      "in the list of rank {}",
                      i, to_string(inputs[i].shape()), to_string(lists[rank][i].shape()), rank));
    }
  }
  std::vector<Work> works;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CollectiveOptions each = options;
    each.async_op = true;
    auto part = *state_->begin(kAllGather, CollectiveKind::all_gather, each, location);
    part.is_list = true;
    part.gives = {whole(inputs[i])};
    for (const std::vector<Tensor>& list : lists) part.takes.push_back(whole(list[i]));
    works.push_back(state_->issue(std::move(part)));
  }
  return state_->join_works(std::move(works), options.async_op);
}

}  // namespace kernbench::distributed
