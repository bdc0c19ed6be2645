#include "runtime/distributed/group.h"

#include <algorithm>

#include "runtime/distributed/distributed.h"
#include "runtime/distributed/process_group.h"
#include "runtime/tensor/data_under_way.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

Group::Group(int its_number, std::string its_description, std::vector<int> its_ranks)
    : name(std::to_string(its_number)),
      number(its_number),
      description(std::move(its_description)),
      ranks(std::move(its_ranks)),
      ledger(ranks),
      has_destroyed(ranks.size(), false),
      last_works_(ranks.size()),
      timelines_(ranks.size()),
      streams_(ranks.size()) {
  for (auto& timeline : timelines_) timeline = std::make_shared<runtime::Timeline>();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    by_spawned_rank_.emplace_back(ranks[i], static_cast<int>(i));
  }
  std::ranges::sort(by_spawned_rank_);
}

void Group::begin_anew() {
  ledger = CollectiveLedger(ranks);
  mailbox = {};
  last_works_.assign(ranks.size(), nullptr);
  streams_.assign(ranks.size(), nullptr);
}

void Group::release() {
  communicator.reset();
  mailbox = {};
  last_works_.assign(ranks.size(), nullptr);
}

std::optional<int> Group::rank_of(int spawned) const {
  const auto found = std::ranges::lower_bound(by_spawned_rank_, std::pair(spawned, 0));
  if (found == by_spawned_rank_.end() || found->first != spawned) return std::nullopt;
  return found->second;
}

std::optional<int> Group::rank_of_global(int global) const {
  if (shown_ranks.empty()) return rank_of(global);
  const auto found = std::ranges::find(shown_ranks, global);
  if (found == shown_ranks.end()) return std::nullopt;
  return static_cast<int>(found - shown_ranks.begin());
}

const ProcessGroup GroupMember::NON_GROUP_MEMBER = ProcessGroup::non_member();
const ProcessGroup group::WORLD{};

const Group& ProcessGroup::checked() const {
  if (group_ != nullptr) return *group_;
  throw CollectiveError("KB-R002", "Invalid process group specified{}",
                        is_default() ? ": group.WORLD is of any context; what "
                                       "torch.distributed._get_default_group() returns is of one"
                                     : "");
}

DistributedContext& ProcessGroup::context() const {
  const Group& group = checked();
  if (group.simulation.expired()) {
    throw CollectiveError("KB-R002", "Invalid process group specified: its context is gone");
  }
  return *group.context;
}

int ProcessGroup::rank() const {
  return context().get_rank(*this);
}
std::string ProcessGroup::name() const {
  return context().get_backend(*this);
}
Work ProcessGroup::allreduce(const Tensor& x, std::source_location location) const {
  return allreduce(x, ReduceOp::sum, location);
}
Work ProcessGroup::allreduce(const Tensor& x, ReduceOp op, std::source_location location) const {
  return context().all_reduce(x, op, {.group = *this, .async_op = true}, location);
}
Work ProcessGroup::barrier(std::source_location location) const {
  return context().barrier({.group = *this, .async_op = true}, location);
}

int ProcessGroup::size() const {
  return checked().size();
}
const std::string& ProcessGroup::group_name() const {
  return checked().name;
}
const std::string& ProcessGroup::group_desc() const {
  return checked().description;
}
const std::vector<int>& ProcessGroup::ranks() const {
  return checked().global_ranks();
}

}  // namespace kernbench::distributed
