// What a rank's death does to its groups, and torch.distributed.shrink_group, with which the others
// go on.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/misuse.h"
#include "runtime/fiber/fiber_local.h"
#include "runtime/simulation/gate.h"
#include "runtime/stream/rank_streams.h"

namespace kernbench::distributed {

namespace {

// The failure of a group of which some have died.
std::exception_ptr make_failure(const Group& group, const std::set<int>& lost) {
  std::vector<int> dead;
  std::vector<int> in_group;
  for (int rank = 0; rank < group.size(); ++rank) {
    const int process = group.ranks[static_cast<std::size_t>(rank)];
    if (!lost.contains(process)) continue;
    dead.push_back(process);
    in_group.push_back(rank);
  }
  const std::string text = fmt::format(
      "{} {} died, so that group <{}> can run nothing any more; the others go on in the group that "
      "torch.distributed.shrink_group({{{}}}) makes",
      runtime::name_ranks(dead), dead.size() == 1 ? "has" : "have", group.name,
      fmt::join(in_group, ", "));
  return std::make_exception_ptr(DistBackendError("KB-C028", text, in_group));
}

// Throws in torch's words.
void check_excluded(std::span<const int> excluded, int own, int size) {
  if (excluded.empty()) {
    wrong_argument(
        "ranks_to_exclude cannot be empty. To shrink a group, you must specify at least one rank "
        "to exclude. Example: [failed_rank_id]");
  }
  std::set<int> seen;
  for (const int rank : excluded) {
    if (rank < 0 || rank >= size) {
      wrong_argument(
          fmt::format("Rank {} is out of bounds for group size {}. Valid ranks are 0 to {}.", rank,
                      size, size - 1));
    }
    if (!seen.insert(rank).second) {
      wrong_argument(fmt::format("Rank {} is given twice in ranks_to_exclude", rank));
    }
  }
  if (static_cast<int>(seen.size()) == size) {
    wrong_argument("Cannot exclude all ranks in group: at least one must be left");
  }
  if (seen.contains(own)) {
    misuse(
        fmt::format("Current rank {} is in the list of ranks to exclude; excluded ranks should "
                    "not call shrink_group",
                    own));
  }
}

}  // namespace

void DistributedContext::State::rank_lost(int rank) {
  lost_ranks.insert(rank);
  returned_ranks.insert(rank);
  initialized_ranks.erase(rank);
  const auto fail_if_member = [&](Group& group) {
    if (group.rank_of(rank)) fail(group, make_failure(group, lost_ranks));
  };
  if (world != nullptr) fail_if_member(*world);
  for (const auto& [number, group] : groups) fail_if_member(*group);
}

void DistributedContext::State::note_lost_ranks(Group& group) const {
  const auto is_lost = [&](int rank) { return lost_ranks.contains(rank); };
  if (std::ranges::any_of(group.ranks, is_lost)) group.failure = make_failure(group, lost_ranks);
}

// What all members have begun runs to its end.
void DistributedContext::State::fail(Group& group, const std::exception_ptr& why) {
  group.failure = why;
  for (const std::uint64_t operation : group.ledger.list_open_operations()) {
    object_meetings.give_up(operation, why);
  }
  group.ledger = CollectiveLedger(group.ranks);
  if (group.communicator != nullptr) group.communicator->give_up(why);
  for (const Message& message : group.mailbox.take_all()) message.work->finish(why);
}

// The caller need not look at each operation that has failed with a group.
void DistributedContext::State::see_failures() {
  try {
    runtime::synchronize(*simulation);
  } catch (const DistBackendError&) {
  }
  for (const std::shared_ptr<Work::State>& work : works[local().rank].all) {
    if (!work->is_done || work->failure == nullptr) continue;
    work->is_waited_for = true;
    work->know();
  }
}

// The ranks that are left meet in the new group, without simulated time.
ProcessGroup DistributedContext::State::shrink(const std::shared_ptr<Group>& parent,
                                               std::vector<int> left, Location location) {
  const bool is_world = parent == world;
  const NewGroupOptions options{.group_desc = is_world ? "default_pg" : parent->description};
  const ProcessGroup group = new_local_group(std::move(left), options);
  CollectiveCall call = *begin("shrink_group", CollectiveKind::objects, {.group = group}, location);
  exchange(call, {});
  if (!is_world) {
    destroy(ProcessGroup(parent));
    return group;
  }
  if (world == parent) become_world(group.group());
  destroy_own_groups();
  return group;
}

// Its ranks count anew, from 0.
void DistributedContext::State::become_world(const std::shared_ptr<Group>& group) {
  group->shown_ranks.resize(group->ranks.size());
  std::iota(group->shown_ranks.begin(), group->shown_ranks.end(), 0);
  groups.erase(group->number);
  if (whole_world == nullptr) whole_world = world;
  world = group;
}

ProcessGroup DistributedContext::shrink_group(std::span<const int> ranks_to_exclude,
                                              const ShrinkOptions& options, Location location) {
  state_->default_backend();
  runtime::check_outside_kernels(*state_->simulation, "shrink_group");
  if (!state_->is_rank()) misuse("shrink_group: the ranks that are left call it, in spawn()");
  Group& parent = state_->registered(options.group);
  const auto own = parent.rank_of(state_->local().rank);
  if (!own) misuse(fmt::format("shrink_group: the caller is no member of group <{}>", parent.name));
  check_excluded(ranks_to_exclude, *own, parent.size());
  if (options.shrink_flags == SHRINK_ABORT && parent.failure == nullptr) {
    state_->fail(parent,
                 std::make_exception_ptr(DistBackendError(
                     "KB-C028", fmt::format("group <{}> was aborted by shrink_group", parent.name),
                     {ranks_to_exclude.begin(), ranks_to_exclude.end()})));
  }
  state_->see_failures();
  std::vector<int> left;
  for (int rank = 0; rank < parent.size(); ++rank) {
    const bool is_left = std::ranges::find(ranks_to_exclude, rank) == ranks_to_exclude.end();
    if (is_left) left.push_back(parent.ranks[static_cast<std::size_t>(rank)]);
  }
  return state_->shrink(parent.shared_from_this(), std::move(left), location);
}

ProcessGroup DistributedContext::shrink_group(std::initializer_list<int> ranks_to_exclude,
                                              const ShrinkOptions& options, Location location) {
  return shrink_group(std::span(ranks_to_exclude.begin(), ranks_to_exclude.size()), options,
                      location);
}

}  // namespace kernbench::distributed
