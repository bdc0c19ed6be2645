// The life cycle of torch.distributed's default group: who makes it, who knows it, and who
// destroys it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/group.h"
#include "runtime/distributed/misuse.h"
#include "runtime/distributed/work_state.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

using runtime::FiberLocal;

DistributedContext::DistributedContext(RuntimeContext& torch)
    : torch_(torch), state_(std::make_unique<State>()) {}
DistributedContext::~DistributedContext() = default;

bool DistributedContext::is_backend_available(std::string_view backend) {
  return find_backend(backend) != nullptr;
}

const FiberLocal& DistributedContext::local() const {
  return torch_.simulation().local();
}

bool DistributedContext::is_initialized() const {
  return state_->initialized_for_all || (local().kind == FiberLocal::Kind::rank &&
                                         state_->initialized_ranks.contains(local().rank));
}

void DistributedContext::init_process_group(std::string_view name, const InitOptions& options) {
  if (is_initialized()) misuse("trying to initialize the default process group twice!");
  const BackendFactory factory = find_backend(name);
  if (factory == nullptr) {
    misuse(fmt::format("Unknown c10d backend type {}; there are: {}", name,
                       fmt::join(backend_names(), ", ")));
  }
  if (state_->backend != nullptr && state_->backend->name() != name) {
    misuse(
        fmt::format("init_process_group: another rank has made the group with backend '{}', not "
                    "'{}'",
                    state_->backend->name(), name));
  }
  std::unique_ptr<Backend> made;  // destroyed again if an argument is wrong
  if (state_->backend == nullptr) made = factory(torch_, torch_.options().ccl.get());
  check_init(made == nullptr ? *state_->backend : *made, options);
  if (made != nullptr) state_->backend = std::move(made);
  if (state_->world == nullptr) {
    const bool takes_some = options.world_size != -1 && !state_->backend->has_single_driver();
    std::vector<int> ranks(static_cast<std::size_t>(takes_some ? options.world_size
                                                               : state_->backend->caller_count()));
    std::iota(ranks.begin(), ranks.end(), 0);
    state_->world = make_group(std::move(ranks), "default_pg");
    communicator_of(*state_->world);
  }
  if (local().kind == FiberLocal::Kind::rank) {
    state_->initialized_ranks.insert(local().rank);
  } else {
    state_->initialized_for_all = true;
  }
}

namespace {

// There is one process and no rendezvous, so any URL with a scheme that PyTorch knows is accepted.
void check_init_method(std::string_view url) {
  const std::string_view scheme = url.substr(0, url.find("://"));
  if (url.empty() || scheme == "env" || scheme == "tcp" || scheme == "file") return;
  misuse(
      fmt::format("No rendezvous handler for {}://; there are: env, tcp, file, and none", scheme));
}

}  // namespace

int DistributedContext::world_size_on(const Backend& backend) const {
  return state_->world == nullptr || backend.has_single_driver() ? backend.world_size()
                                                                 : state_->world->size();
}

void DistributedContext::check_world_size(const Backend& backend, int world_size) const {
  const int known = world_size_on(backend);
  if (world_size == -1 || world_size == known) return;
  if (backend.has_single_driver()) {
    misuse(fmt::format("world_size ({}) is not the number of PEs that are ranks ({})", world_size,
                       known));
  }
  if (state_->world != nullptr) {
    misuse(fmt::format("world_size ({}) is not that of the group which another rank has made ({})",
                       world_size, known));
  }
  if (world_size > 0 && world_size < known) return;
  misuse(
      fmt::format("world_size ({}) is not between 1 and the number of SIPs of topology '{}' ({})",
                  world_size, torch_.topology().name, known));
}

void DistributedContext::check_init(const Backend& backend, const InitOptions& options) const {
  check_init_method(options.init_method);
  check_world_size(backend, options.world_size);
  const bool takes_some = options.world_size != -1 && state_->world == nullptr;
  const int world_size = takes_some ? options.world_size : world_size_on(backend);
  if (options.rank >= world_size) {
    misuse(fmt::format("Cannot init process group where rank ({}) >= world_size ({})", options.rank,
                       world_size));
  }
  if (options.rank < -1) {
    misuse(fmt::format("Cannot init process group where rank ({}) is negative", options.rank));
  }
  if (local().kind == FiberLocal::Kind::rank && options.rank != -1 &&
      options.rank != local().rank) {
    misuse(fmt::format("init_process_group: rank ({}) is not this rank's own ({})", options.rank,
                       local().rank));
  }
}

void DistributedContext::destroy_process_group(const ProcessGroup& group) {
  if (!is_initialized()) misuse("Process group cannot be None");
  const bool is_rank = local().kind == FiberLocal::Kind::rank;
  if (!group.is_default()) {
    const bool may_destroy = is_rank ? find(group) != nullptr : is_registered(group);
    if (!may_destroy) misuse("Invalid process group specified");
    const std::shared_ptr<Group> found = group.group();
    for (int rank = 0; rank < found->size(); ++rank) {
      if (!is_rank || found->ranks[static_cast<std::size_t>(rank)] == local().rank) {
        found->has_destroyed[static_cast<std::size_t>(rank)] = true;
      }
    }
    return forget_if_destroyed(found);
  }
  if (is_rank && !state_->initialized_ranks.contains(local().rank)) {
    misuse("the process group was made before spawn() and is destroyed after it, not by a rank");
  }
  const bool ranks_run = state_->started_ranks &&
                         static_cast<int>(state_->returned_ranks.size()) < *state_->started_ranks;
  if (!is_rank && ranks_run) misuse("destroy_process_group while ranks run: join() them first");
  wait_for_works();  // they use what is destroyed below
  if (is_rank) destroy_own_groups();
  leave_default_group();
}

// After this the rank's handles to its groups are invalid, though other ranks may not have left
// yet.
void DistributedContext::destroy_own_groups() {
  for (const auto& [number, group] : std::map(state_->groups)) {
    const auto rank = group->rank_of(local().rank);
    if (!rank) continue;
    group->has_destroyed[static_cast<std::size_t>(*rank)] = true;
    forget_if_destroyed(group);
  }
}

// The last rank to leave destroys the group.
void DistributedContext::leave_default_group() {
  if (local().kind == FiberLocal::Kind::rank) {
    state_->initialized_ranks.erase(local().rank);
  } else {
    state_->initialized_for_all = false;
  }
  if (state_->initialized_for_all || !state_->initialized_ranks.empty()) return;
  const std::unique_ptr<Backend> closing = std::move(state_->backend);
  forget_groups(Forget::all);
  state_->world.reset();
  state_->group_count = 0;
  closing->close();
}

Backend& DistributedContext::backend() const {
  if (!is_initialized()) {
    misuse(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group.");
  }
  return *state_->backend;
}

int DistributedContext::get_rank(const ProcessGroup& group) const {
  backend();
  if (local().kind != FiberLocal::Kind::rank && std::getenv("KERNBENCH_DEBUG") != nullptr) {
    fmt::print(stderr,
               "kernbench: warning: get_rank() outside a rank returns 0; a bug unless there "
               "is a single driver\n");
  }
  if (group.is_default()) return local().rank;
  const Group* const found = member_group(group);
  return found == nullptr ? -1 : *found->rank_of(local().rank);
}

// As find(), but throws for a group that has been destroyed, instead of treating the caller as a
// non-member.
const Group* DistributedContext::member_group(const ProcessGroup& group) const {
  if (!group.is_non_member()) registered(group);
  return find(group);
}

int DistributedContext::get_world_size(const ProcessGroup& group) const {
  if (group.is_default()) return world_size_on(backend());
  const Group* const found = member_group(group);
  return found == nullptr ? -1 : found->size();
}

std::string DistributedContext::get_backend(const ProcessGroup& group) const {
  backend();
  if (find(group) == nullptr) misuse("Invalid process group specified");
  return std::string(state_->backend->name());
}

// Tells a new group's ledger which of its ranks have returned or were never started.
void DistributedContext::note_absent_ranks(Group& group) {
  for (int rank = 0; rank < group.size() && state_->started_ranks; ++rank) {
    const int global = group.ranks[static_cast<std::size_t>(rank)];
    if (global >= *state_->started_ranks) group.ledger.leave(rank, false);
    if (state_->returned_ranks.contains(global)) group.ledger.leave(rank, true);
  }
}

void DistributedContext::ranks_start(int nprocs) {
  state_->started_ranks = nprocs;
  torch_.simulation().flight_recorder().clear();
  state_->returned_ranks.clear();
  forget_groups(Forget::of_ranks);
  begin_anew();
}

// Waits for all works of the caller, whether they succeed or fail.
void DistributedContext::wait_for_works() {
  for (const auto& work : std::vector(state_->works[local().rank].all())) {
    work->wait([&] { return work->describe_wait(); });
  }
  know_all_done(local().rank);
}

void DistributedContext::know_all_done(int rank) {
  state_->works[rank].timeline()->know(state_->issued_count);
}

// A rank may return before its works are done.  They run to their end, as torch's do, but the rank
// is warned that it should have waited, even if they had ended by then.
void DistributedContext::rank_ends() {
  constexpr int kMostWarnings = 5;
  const int rank = local().rank;
  int left = 0;
  while (const std::shared_ptr<Work::State> work = state_->works[rank].take_last()) {
    work->wait([&] { return work->describe_wait(); });
    work->know();
    if (work->is_waited_for) continue;
    if (work->failure != nullptr) std::rethrow_exception(work->failure);
    if (++left > kMostWarnings) continue;
    fmt::print(stderr, "kernbench: warning: [KB-C010] rank {} ended without waiting for {}\n", rank,
               work->description);
  }
  if (left > kMostWarnings) {
    fmt::print(stderr, "kernbench: warning: [KB-C010] rank {} ended without waiting for {} more\n",
               rank, left - kMostWarnings);
  }
  know_all_done(rank);
  if (state_->initialized_ranks.contains(rank)) leave_default_group();
}

void DistributedContext::rank_returned(int rank) {
  state_->returned_ranks.insert(rank);
  const auto leave = [&](Group& group) {
    if (const auto member = group.rank_of(rank)) group.ledger.leave(*member, true);
  };
  if (state_->world != nullptr) leave(*state_->world);
  for (const auto& [number, group] : state_->groups) leave(*group);
}

void DistributedContext::run_abandoned() {
  const auto abandon = [](const Group& group) {
    if (group.communicator != nullptr) group.communicator->abandon();
  };
  state_->initialized_ranks.clear();
  state_->started_ranks.reset();
  // A default group that was made for all, before spawn(), survives a run that failed.
  forget_groups(state_->initialized_for_all ? Forget::of_ranks : Forget::all);
  if (!state_->initialized_for_all) {
    state_->world.reset();
    state_->backend.reset();
  }
  if (state_->world == nullptr) return;
  abandon(*state_->world);
  for (const auto& [number, group] : state_->groups) abandon(*group);
  begin_anew();
}

// Resets the groups for the next run: their calls are counted anew.
void DistributedContext::begin_anew() {
  for (const auto& [rank, works] : state_->works) {
    for (const std::shared_ptr<Work::State>& work : works.all()) work->release();
    works.timeline()->know(state_->issued_count);
  }
  state_->works.clear();
  state_->object_exchanges.clear();
  const auto begin = [&](Group& group) {
    group.begin_anew();
    group.has_destroyed.assign(group.ranks.size(), false);
    note_absent_ranks(group);
  };
  if (state_->world != nullptr) begin(*state_->world);
  for (const auto& [number, group] : state_->groups) begin(*group);
}

void DistributedContext::forget_groups(Forget which) {
  const auto forget = [&](const auto& entry) {
    Group& group = *entry.second;
    if (which == Forget::of_ranks && !group.is_of_ranks) return false;
    group.has_destroyed.assign(group.ranks.size(), true);
    group.release();
    return true;
  };
  std::erase_if(state_->groups, forget);
  state_->new_groups.clear();
  state_->local_groups.clear();
}

}  // namespace kernbench::distributed
