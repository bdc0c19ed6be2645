// torch.distributed.new_group and related functions.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/fingerprint.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/distributed/misuse.h"
#include "runtime/simulation/gate.h"

namespace kernbench::distributed {

using runtime::FiberLocal;

// True if the group exists for the caller: a rank may have destroyed it while others have not.
bool DistributedContext::State::is_registered(const ProcessGroup& group) const {
  if (group.group() == nullptr) return false;
  if (group.group() == world) return true;
  const auto known = groups.find(group.group()->number);
  if (known == groups.end() || known->second != group.group()) return false;
  const auto rank = group.group()->rank_of(local().rank);
  return !is_rank() || !rank || !group.group()->has_left(*rank);
}

// Returns the group if the caller is a member and has not destroyed it, else nullptr.
Group* DistributedContext::State::find(const ProcessGroup& group) const {
  default_backend();
  if (!group.is_default() && !is_registered(group)) return nullptr;
  Group* const found = group.is_default() ? world.get() : group.group().get();
  return found->rank_of(local().rank) ? found : nullptr;
}

// Acts as find(), but throws for a group that has been destroyed, instead of treating the caller as
// a non-member.
Group* DistributedContext::State::member_group(const ProcessGroup& group) const {
  if (!group.is_non_member()) registered(group);
  return find(group);
}

// Returns the group, of which the caller need not be a member; throws KB-R002 if it is not
// registered.
Group& DistributedContext::State::registered(const ProcessGroup& group) const {
  default_backend();
  if (group.is_default()) return *world;
  if (!is_registered(group)) {
    misuse(
        fmt::format("Group {} is not registered, please create group with "
                    "torch.distributed.new_group API",
                    group.group() == nullptr ? "<NON_GROUP_MEMBER>"
                                             : fmt::format("<{}>", group.group()->name)));
  }
  return *group.group();
}

int DistributedContext::get_group_rank(const ProcessGroup& group, int global_rank) const {
  const Group& found = state_->registered(group);
  const auto rank = found.rank_of_global(global_rank);
  if (!rank) {
    wrong_argument(
        fmt::format("Global rank {} is not part of group <{}>", global_rank, found.name));
  }
  return *rank;
}

int DistributedContext::get_global_rank(const ProcessGroup& group, int group_rank) const {
  const Group& found = state_->registered(group);
  if (group_rank < 0 || group_rank >= found.size()) {
    wrong_argument(fmt::format("Group rank {} is not part of group <{}>", group_rank, found.name));
  }
  return found.global_rank(group_rank);
}

std::vector<int> DistributedContext::get_process_group_ranks(const ProcessGroup& group) const {
  return state_->registered(group).global_ranks();
}

int DistributedContext::get_pg_count() const {
  state_->default_backend();
  const auto is_member = [&](const auto& entry) {
    const auto rank = entry.second->rank_of(state_->local().rank);
    return rank && !entry.second->has_left(*rank);
  };
  return 1 + static_cast<int>(std::ranges::count_if(state_->groups, is_member));
}

std::shared_ptr<Group> DistributedContext::State::make_group(std::vector<int> ranks,
                                                             std::string_view description) {
  auto group = std::make_shared<Group>(group_count, std::string(description), std::move(ranks));
  group->is_of_ranks = is_rank();
  group->context = &context;
  group->simulation = simulation;
  if (whole_world != nullptr) {
    for (const int rank : group->ranks)
      group->shown_ranks.push_back(world->rank_of(rank).value_or(-1));
  }
  note_absent_ranks(*group);
  fail_if_lost(*group);
  ++group_count;
  return group;
}

const std::shared_ptr<Group>& DistributedContext::State::register_group(
    std::vector<int> ranks, std::string_view description) {
  const int number = group_count;
  return groups[number] = make_group(std::move(ranks), description);
}

// When all members have destroyed a group, nobody can call it any more, but calls may be under
// way.  A group that was made outside of spawn() exists again in the next spawn().
void DistributedContext::State::forget_if_destroyed(const std::shared_ptr<Group>& group) {
  if (std::ranges::find(group->has_destroyed, false) != group->has_destroyed.end()) return;
  group->release();
  if (group->is_of_ranks || !is_rank()) groups.erase(group->number);
}

ProcessGroup DistributedContext::State::handle_for_caller(
    const std::shared_ptr<Group>& group) const {
  const bool is_driver = !is_rank();
  return is_driver || group->rank_of(local().rank) ? ProcessGroup(group)
                                                   : ProcessGroup::non_member();
}

std::vector<int> DistributedContext::State::checked_ranks(std::span<const int> given,
                                                          const NewGroupOptions& options) const {
  const int world_size = world_size_on(default_backend());
  std::vector<int> ranks(given.begin(), given.end());
  if (ranks.empty())
    wrong_argument("new_group: ranks is empty; give at least one, or none for all");
  if (static_cast<int>(ranks.size()) > world_size) {
    wrong_argument(
        "the new group's world size should be less or equal to the world size set by "
        "init_process_group");
  }
  for (const int rank : ranks) {
    if (rank >= 0 && rank < world_size) continue;
    wrong_argument(fmt::format("Rank {} is out of range. Valid ranks are 0 to {} (world_size={})",
                               rank, world_size - 1, world_size));
  }
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) {
    wrong_argument(
        fmt::format("ranks list must not contain duplicate entries, got {}", format_list(given)));
  }
  if (!options.backend.empty() && options.backend != backend->name()) {
    misuse(fmt::format("new_group: backend '{}' beside '{}'; all groups of a run have one backend",
                       options.backend, backend->name()));
  }
  std::vector<int> spawned = options.sort_ranks ? std::move(sorted) : std::move(ranks);
  for (int& rank : spawned) rank = spawned_rank(rank);
  return spawned;
}

std::shared_ptr<Communicator> DistributedContext::State::ensure_communicator(Group& group) const {
  if (group.communicator == nullptr) {
    group.communicator = backend->connect(group.ranks, group.description);
  }
  return group.communicator;
}

// Returns how many of some ranks the caller stands for, itself among them.
int DistributedContext::State::count_stood_for(const std::vector<int>& ranks) const {
  const sim::Folding& folding = simulation->machine().folding();
  const int own = local().rank;
  return static_cast<int>(
      std::ranges::count_if(ranks, [&](int rank) { return folding.first_of(rank) == own; }));
}

void DistributedContext::State::check_followers_have_groups(Group& group) const {
  const sim::Folding& folding = simulation->machine().folding();
  if (!folding.is_on() || group.size() == world->size() || group.has_followers) return;
  const auto sorted = [](std::vector<int> ranks) {
    std::ranges::sort(ranks);
    return ranks;
  };
  std::set<std::vector<int>> known;
  for (const auto& [number, other] : groups) known.insert(sorted(other->ranks));
  for (int rank = 0; rank < world->size(); ++rank) {
    if (!group.rank_of(folding.first_of(rank))) continue;
    std::vector<int> of_follower;
    for (const int member : group.ranks) of_follower.push_back(folding.shift_back(member, rank));
    if (!known.contains(sorted(of_follower))) {
      refuse_unlike("a group", fmt::format("rank {} has no group like it yet", rank));
    }
  }
  group.has_followers = true;
}

// The first caller makes the group; when `callers` have called, it is forgotten here.
std::shared_ptr<Group> DistributedContext::State::shared_group(const NewGroupKey& key, int callers,
                                                               std::vector<int> ranks,
                                                               std::string_view description) {
  NewGroup& made = new_groups[key];
  if (made.group == nullptr) made.group = register_group(std::move(ranks), description);
  const std::shared_ptr<Group> group = made.group;
  made.handed_out += count_stood_for(key.first.empty() ? world->ranks : key.first);
  if (made.handed_out == callers) new_groups.erase(key);
  return group;
}

// Members that name the same ranks meet; a member's n-th call refers to the n-th such group.
ProcessGroup DistributedContext::State::new_local_group(std::vector<int> ranks,
                                                        const NewGroupOptions& options) {
  const int own = local().rank;
  if (std::ranges::find(ranks, own) == ranks.end()) return ProcessGroup::non_member();
  const auto members = static_cast<int>(ranks.size());
  const NewGroupKey key(ranks, local_groups[ranks][own]++);
  return ProcessGroup(shared_group(key, members, std::move(ranks), options.group_desc));
}

// All ranks of the default group call it, in the same order.
ProcessGroup DistributedContext::State::new_group_of_all(std::vector<int> ranks,
                                                         const NewGroupOptions& options,
                                                         Location location) {
  CollectiveCall call = *begin("new_group", CollectiveKind::new_group, {}, location);
  call.members = ranks;
  const CallRecord record = arrive(call);
  const ProcessGroup handle = handle_for_caller(
      shared_group({{}, call.operation}, world->size(), std::move(ranks), options.group_desc));
  record.completed();
  return handle;
}

ProcessGroup DistributedContext::new_group(Location location) {
  state_->default_backend();
  return new_group(state_->world->global_ranks(), {}, location);
}

ProcessGroup DistributedContext::new_group(std::span<const int> given,
                                           const NewGroupOptions& options, Location location) {
  state_->default_backend();
  runtime::check_outside_kernels(*state_->simulation, "new_group");
  std::vector<int> ranks = state_->checked_ranks(given, options);
  if (!state_->is_rank()) {  // a single driver makes it for all
    return state_->handle_for_caller(state_->register_group(std::move(ranks), options.group_desc));
  }
  if (options.use_local_synchronization) return state_->new_local_group(std::move(ranks), options);
  return state_->new_group_of_all(std::move(ranks), options, location);
}

namespace {

// Throws KB-C020 for a rank that is in several groups.
void check_do_not_overlap(const std::vector<std::vector<int>>& groups) {
  std::set<int> seen;
  for (const std::vector<int>& ranks : groups) {
    for (const int rank : ranks) {
      if (seen.insert(rank).second) continue;
      wrong_argument(fmt::format("rank {} is in several subgroups; they must not overlap", rank));
    }
  }
}

}  // namespace

// Each group's members check all of them, so that ranks are told alike.
ProcessGroup DistributedContext::split_group(const ProcessGroup& parent,
                                             const std::vector<std::vector<int>>& split_ranks,
                                             Location location) {
  const Group* const from = state_->member_group(parent);
  if (from == nullptr) return ProcessGroup::non_member();
  if (split_ranks.empty()) wrong_argument("split_ranks cannot be None or empty");
  check_do_not_overlap(split_ranks);
  const int own = *from->rank_of(state_->local().rank);
  ProcessGroup group = ProcessGroup::non_member();
  for (const std::vector<int>& split : split_ranks) {
    if (split.empty()) wrong_argument("the split group cannot be empty");
    std::vector<int> ranks;
    for (const int rank : split) ranks.push_back(get_global_rank(parent, rank));
    if (std::ranges::find(split, own) == split.end()) continue;
    group = new_group(std::span<const int>(ranks), {.use_local_synchronization = true}, location);
  }
  return group;
}

std::pair<ProcessGroup, std::vector<ProcessGroup>> DistributedContext::new_subgroups(
    int group_size, Location location) {
  const int world_size = get_world_size();
  if (group_size < 1 || group_size > world_size) {
    wrong_argument(fmt::format("the arg 'group_size' ({}) must not exceed the world size ({})",
                               group_size, world_size));
  }
  if (world_size % group_size != 0) {
    wrong_argument(fmt::format("The world size ({}) must be divisible by 'group_size={}'",
                               world_size, group_size));
  }
  std::vector<std::vector<int>> all;
  for (int first = 0; first < world_size; first += group_size) {
    std::vector<int>& ranks = all.emplace_back(static_cast<std::size_t>(group_size));
    std::iota(ranks.begin(), ranks.end(), first);
  }
  return new_subgroups_by_enumeration(all, location);
}

std::pair<ProcessGroup, std::vector<ProcessGroup>> DistributedContext::new_subgroups_by_enumeration(
    const std::vector<std::vector<int>>& ranks_per_subgroup, Location location) {
  state_->default_backend();
  check_do_not_overlap(ranks_per_subgroup);
  ProcessGroup own = ProcessGroup::non_member();
  std::vector<ProcessGroup> all;
  for (const std::vector<int>& ranks : ranks_per_subgroup) {
    all.push_back(new_group(std::span(ranks), {}, location));
    if (std::ranges::find(ranks, get_rank()) != ranks.end()) own = all.back();
  }
  return {own, all};
}

}  // namespace kernbench::distributed
