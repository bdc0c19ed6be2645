// A rank that has died makes its groups fail; the other ranks go on in the group that
// torch.distributed.shrink_group makes.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/distributed/misuse.h"
#include "runtime/fiber/fiber_local.h"
#include "runtime/simulation/gate.h"
#include "runtime/stream/rank_streams.h"

namespace kernbench::distributed {

namespace {

std::exception_ptr make_failure(const Group& group, const std::vector<int>& dead) {
  const std::string text = fmt::format(
      "{} {} died, so that group <{}> can run nothing any more; the others go on in the group that "
      "torch.distributed.shrink_group({{{}}}) makes",
      runtime::name_ranks(dead), dead.size() == 1 ? "has" : "have", group.name,
      fmt::join(dead, ", "));
  return std::make_exception_ptr(DistBackendError("KB-C028", text, dead));
}

std::exception_ptr make_abort(const Group& group, const std::vector<int>& excluded) {
  return std::make_exception_ptr(DistBackendError(
      "KB-C028", fmt::format("shrink_group has aborted group <{}>", group.name), excluded));
}

// Throws, in torch's words, for wrong ranks to exclude.
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
  if (world != nullptr) fail_if_lost(*world);
  for (const auto& [number, group] : std::map(groups)) fail_if_lost(*group);
}

void DistributedContext::State::fail_if_lost(Group& group) {
  const auto is_lost = [&](int rank) { return lost_ranks.contains(rank); };
  if (std::ranges::none_of(group.ranks, is_lost)) return;
  std::vector<int> dead;
  for (const int rank : lost_ranks) {
    if (const auto global = world->rank_of(rank)) dead.push_back(*global);
  }
  fail(group, make_failure(group, dead));
}

// The next run has all ranks.
void DistributedContext::State::ranks_ended() {
  if (whole_world != nullptr) world = std::exchange(whole_world, nullptr);
  for (const int rank : std::exchange(lost_ranks, {})) {
    works.erase(rank);
    if (initialized_ranks.contains(rank)) leave_default_group(rank);
  }
}

void DistributedContext::State::fail(Group& group, const std::exception_ptr& why) {
  for (const std::uint64_t operation : group.ledger.fail(why)) {
    object_meetings.give_up(operation, why);
    if (group.communicator != nullptr) group.communicator->give_up(operation, why);
  }
  for (const Message& message : group.mailbox.take_all()) message.work->finish(why);
}

// The works of groups that have failed end: all members have called them, or they are given up.
void DistributedContext::State::see_failures(const Group& parent) {
  try {
    runtime::synchronize(*simulation);
  } catch (const DistBackendError&) {
  }
  for (const auto& work : std::vector(works[local().rank].all)) {
    const std::shared_ptr<Group> group = work->group.lock();
    const bool ends = work->is_done || (group != nullptr && group->ledger.failure() != nullptr);
    if (!ends || (&parent != world.get() && group.get() != &parent)) continue;
    work->wait([&] { return work->describe_wait(); });
    work->is_waited_for = true;
    work->know();
  }
}

// Aborts the group, and with the default group all others, since they go with it.
void DistributedContext::State::abort(Group& parent, std::vector<int> excluded) {
  for (int& rank : excluded) rank = parent.global_rank(rank);
  const auto fail_once = [&](Group& group) {
    const bool may_call = group.ledger.failure() == nullptr && !group.is_shrunk;
    if (may_call) fail(group, make_abort(group, excluded));
  };
  fail_once(parent);
  if (&parent != world.get()) return;
  for (const auto& [number, group] : std::map(groups)) fail_once(*group);
}

// The ranks that are left meet in the new group, without simulated time.  If one of them dies
// meanwhile, what they get is of the parent, which they are still to shrink.
ProcessGroup DistributedContext::State::shrink(const std::shared_ptr<Group>& parent,
                                               const std::vector<int>& left, Location location) {
  const bool is_world = parent == world;
  // The negative number keeps the key apart from those of new_group().
  NewGroupKey key({-1 - parent->number}, 0);
  key.first.insert(key.first.end(), left.begin(), left.end());
  const std::shared_ptr<Group> group =
      shared_group(key, static_cast<int>(left.size()), left,
                   is_world ? "default_pg" : std::string_view(parent->description));
  group->is_shrunk = true;
  if (is_world) destroy_own_groups();
  try {
    CollectiveCall call =
        *begin("shrink_group", CollectiveKind::objects, {.group = ProcessGroup(group)}, location);
    exchange(call, {});
  } catch (const DistBackendError&) {
    refuse_if_failed(*parent);
    throw;
  }
  if (world == parent) become_world(group);
  group->is_shrunk = false;
  if (!is_world) destroy(ProcessGroup(parent));
  return ProcessGroup(group);
}

// Its ranks count anew, from 0.
void DistributedContext::State::become_world(const std::shared_ptr<Group>& group) {
  group->shown_ranks.resize(group->ranks.size());
  std::iota(group->shown_ranks.begin(), group->shown_ranks.end(), 0);
  // With it go those that were to be, had another rank not died.
  std::erase_if(groups, [](const auto& entry) { return entry.second->is_shrunk; });
  if (whole_world == nullptr) whole_world = world;
  world = group;
}

ProcessGroup DistributedContext::shrink_group(std::span<const int> ranks_to_exclude,
                                              const ShrinkOptions& options, Location location) {
  state_->default_backend();
  runtime::check_outside_kernels(*state_->simulation, "shrink_group");
  if (state_->simulation->machine().folding().is_on()) {
    refuse_unlike("shrink_group", "the ranks that it excludes do something else");
  }
  if (!state_->is_rank()) misuse("shrink_group: the ranks that are left call it, in spawn()");
  Group& parent = state_->registered(options.group);
  const auto own = parent.rank_of(state_->local().rank);
  if (!own || !state_->world->rank_of(state_->local().rank)) {
    misuse(fmt::format("shrink_group: the caller is no member of group <{}> and the default group",
                       parent.name));
  }
  check_excluded(ranks_to_exclude, *own, parent.size());
  if (options.shrink_flags == SHRINK_ABORT)
    state_->abort(parent, {ranks_to_exclude.begin(), ranks_to_exclude.end()});
  state_->see_failures(parent);
  std::vector<int> left;
  for (int rank = 0; rank < parent.size(); ++rank) {
    const bool is_left = std::ranges::find(ranks_to_exclude, rank) == ranks_to_exclude.end();
    if (is_left) left.push_back(parent.ranks[static_cast<std::size_t>(rank)]);
  }
  return state_->shrink(parent.shared_from_this(), left, location);
}

ProcessGroup DistributedContext::shrink_group(std::initializer_list<int> ranks_to_exclude,
                                              const ShrinkOptions& options, Location location) {
  return shrink_group(std::span(ranks_to_exclude.begin(), ranks_to_exclude.size()), options,
                      location);
}

}  // namespace kernbench::distributed
