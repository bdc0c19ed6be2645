// The life cycle of torch.distributed's default group: who makes it, who knows it, and who
// destroys it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/misuse.h"
#include "runtime/stream/rank_streams.h"

namespace kernbench::distributed {

DistributedContext::DistributedContext(RuntimeContext& torch,
                                       std::shared_ptr<runtime::Simulation> simulation,
                                       std::shared_ptr<const BackendConfig> settings,
                                       Reproducible least)
    : state_(std::make_unique<State>(*this, torch, std::move(simulation), std::move(settings),
                                     least)) {}
DistributedContext::~DistributedContext() = default;

void DistributedContext::init_process_group(std::string_view backend, const InitOptions& options) {
  state_->init(backend, options);
}

void DistributedContext::destroy_process_group(const ProcessGroup& group) {
  state_->destroy(group);
}

bool DistributedContext::is_initialized() const {
  return state_->is_initialized();
}

Reproducible DistributedContext::least_reproducible() const {
  return state_->least_reproducible;
}

bool DistributedContext::is_backend_available(std::string_view backend) {
  return find_backend(backend) != nullptr;
}

bool DistributedContext::State::is_initialized() const {
  return initialized_for_all || (is_rank() && initialized_ranks.contains(local().rank));
}

void DistributedContext::State::init(std::string_view name, const InitOptions& options) {
  if (is_initialized()) misuse("trying to initialize the default process group twice!");
  const BackendFactory factory = find_backend(name);
  if (factory == nullptr) {
    misuse(fmt::format("Unknown c10d backend type {}; there are: {}", name,
                       fmt::join(backend_names(), ", ")));
  }
  if (backend != nullptr && backend->name() != name) {
    misuse(
        fmt::format("init_process_group: another rank has made the group with backend '{}', not "
                    "'{}'",
                    backend->name(), name));
  }
  std::unique_ptr<Backend> made;  // destroyed again if an argument is wrong
  if (backend == nullptr)
    made = factory({.torch = torch, .simulation = simulation, .config = settings.get()});
  check_init(made == nullptr ? *backend : *made, options);
  if (made != nullptr) backend = std::move(made);
  if (world == nullptr) {
    const bool takes_some = options.world_size != -1 && !backend->has_single_driver();
    std::vector<int> ranks(
        static_cast<std::size_t>(takes_some ? options.world_size : backend->caller_count()));
    std::iota(ranks.begin(), ranks.end(), 0);
    world = make_group(std::move(ranks), "default_pg");
    ensure_communicator(*world);
  }
  if (is_rank()) {
    initialized_ranks.insert(local().rank);
  } else {
    initialized_for_all = true;
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

int DistributedContext::State::world_size_on(const Backend& on) const {
  return world == nullptr || on.has_single_driver() ? on.world_size() : world->size();
}

void DistributedContext::State::check_world_size(const Backend& on, int world_size) const {
  const int known = world_size_on(on);
  if (world_size == -1 || world_size == known) return;
  if (on.has_single_driver()) {
    misuse(fmt::format("world_size ({}) is not the number of PEs that are ranks ({})", world_size,
                       known));
  }
  if (world != nullptr) {
    misuse(fmt::format("world_size ({}) is not that of the group which another rank has made ({})",
                       world_size, known));
  }
  if (world_size > 0 && world_size < known) return;
  misuse(
      fmt::format("world_size ({}) is not between 1 and the number of SIPs of topology '{}' ({})",
                  world_size, simulation->topology().name, known));
}

// In torch's words; torch keeps the addresses of ranks in the store.
void DistributedContext::State::check_store(const InitOptions& options) const {
  if (!options.store.defined()) return;
  if (!options.init_method.empty()) misuse("Cannot specify both init_method and store.");
  if (options.world_size <= 0) misuse("world_size must be positive if using store");
  if (options.rank < 0) misuse("rank must be non-negative if using store");
}

void DistributedContext::State::check_init(const Backend& on, const InitOptions& options) const {
  check_store(options);
  check_init_method(options.init_method);
  check_world_size(on, options.world_size);
  const bool takes_some = options.world_size != -1 && world == nullptr;
  const int world_size = takes_some ? options.world_size : world_size_on(on);
  if (options.rank >= world_size) {
    misuse(fmt::format("Cannot init process group where rank ({}) >= world_size ({})", options.rank,
                       world_size));
  }
  if (options.rank < -1) {
    misuse(fmt::format("Cannot init process group where rank ({}) is negative", options.rank));
  }
  if (is_rank() && options.rank != -1 && options.rank != local().rank) {
    misuse(fmt::format("init_process_group: rank ({}) is not this rank's own ({})", options.rank,
                       local().rank));
  }
}

void DistributedContext::State::destroy(const ProcessGroup& group) {
  if (!is_initialized()) misuse("Process group cannot be None");
  const bool by_rank = is_rank();
  if (!group.is_default() && group.group() != world) {
    const bool may_destroy = by_rank ? find(group) != nullptr : is_registered(group);
    if (!may_destroy) misuse("Invalid process group specified");
    const std::shared_ptr<Group> found = group.group();
    for (int rank = 0; rank < found->size(); ++rank) {
      if (!by_rank || found->ranks[static_cast<std::size_t>(rank)] == local().rank) {
        found->has_destroyed[static_cast<std::size_t>(rank)] = true;
      }
    }
    return forget_if_destroyed(found);
  }
  if (by_rank && !initialized_ranks.contains(local().rank)) {
    misuse("the process group was made before spawn() and is destroyed after it, not by a rank");
  }
  const bool ranks_run = started_ranks && static_cast<int>(returned_ranks.size()) < *started_ranks;
  if (!by_rank && ranks_run) misuse("destroy_process_group while ranks run: join() them first");
  runtime::synchronize(*simulation);
  wait_for_works();  // they use what is destroyed below
  if (by_rank) destroy_own_groups();
  leave_default_group(by_rank ? std::optional(local().rank) : std::nullopt);
}

// After this the rank's handles to its groups are invalid, though other ranks may not have left
// yet.
void DistributedContext::State::destroy_own_groups() {
  for (const auto& [number, group] : std::map(groups)) {
    const auto rank = group->rank_of(local().rank);
    if (!rank || group->is_shrunk) continue;
    group->has_destroyed[static_cast<std::size_t>(*rank)] = true;
    forget_if_destroyed(group);
  }
}

// The last rank to leave destroys the group.
void DistributedContext::State::leave_default_group(std::optional<int> rank) {
  if (rank) {
    initialized_ranks.erase(*rank);
  } else {
    initialized_for_all = false;
  }
  if (initialized_for_all || !initialized_ranks.empty()) return;
  const std::unique_ptr<Backend> closing = std::move(backend);
  forget_groups(Forget::all);
  world.reset();
  group_count = 0;
  closing->close();
}

Backend& DistributedContext::State::default_backend() const {
  if (!is_initialized()) {
    misuse(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group.");
  }
  return *backend;
}

int DistributedContext::get_rank(const ProcessGroup& group) const {
  state_->default_backend();
  if (!state_->is_rank() && std::getenv("KERNBENCH_DEBUG") != nullptr) {
    fmt::print(stderr,
               "kernbench: warning: get_rank() outside a rank returns 0; a bug unless there "
               "is a single driver\n");
  }
  const int own = state_->local().rank;
  if (group.is_default() && !state_->is_rank()) return own;
  const Group* const found = state_->member_group(group);
  return found == nullptr ? -1 : *found->rank_of(own);
}

ProcessGroup DistributedContext::_get_default_group() const {
  state_->default_backend();
  return ProcessGroup(state_->world);
}

int DistributedContext::get_world_size(const ProcessGroup& group) const {
  if (group.is_default()) return state_->world_size_on(state_->default_backend());
  const Group* const found = state_->member_group(group);
  return found == nullptr ? -1 : found->size();
}

std::string DistributedContext::get_backend(const ProcessGroup& group) const {
  const Backend& backend = state_->default_backend();
  if (state_->find(group) == nullptr) misuse("Invalid process group specified");
  return std::string(backend.name());
}

// Tells a new group's ledger which of its ranks have returned or were never started.
void DistributedContext::State::note_absent_ranks(Group& group) const {
  for (int rank = 0; rank < group.size() && started_ranks; ++rank) {
    const int global = group.ranks[static_cast<std::size_t>(rank)];
    if (global >= *started_ranks) group.ledger.leave(rank, false);
    if (returned_ranks.contains(global)) group.ledger.leave(rank, true);
  }
}

void DistributedContext::State::ranks_start(int nprocs) {
  started_ranks = nprocs;
  simulation->flight_recorder().clear();
  returned_ranks.clear();
  lost_ranks.clear();
  forget_groups(Forget::of_ranks);
  begin_anew();
}

void DistributedContext::State::rank_returned(int rank) {
  returned_ranks.insert(rank);
  const auto leave = [&](Group& group) {
    if (const auto member = group.rank_of(rank)) group.ledger.leave(*member, true);
  };
  if (world != nullptr) leave(*world);
  for (const auto& [number, group] : groups) leave(*group);
}

void DistributedContext::State::run_abandoned() {
  const auto abandon = [](const Group& group) {
    if (group.communicator != nullptr) group.communicator->abandon();
  };
  initialized_ranks.clear();
  started_ranks.reset();
  // A default group that was made for all, before spawn(), survives a run that failed.
  forget_groups(initialized_for_all ? Forget::of_ranks : Forget::all);
  if (!initialized_for_all) {
    world.reset();
    backend.reset();
  }
  if (world == nullptr) return;
  abandon(*world);
  for (const auto& [number, group] : groups) abandon(*group);
  begin_anew();
}

// Resets the groups for the next run: their calls are counted anew.
void DistributedContext::State::begin_anew() {
  for (const auto& [rank, own] : works) {
    for (const std::shared_ptr<Work::State>& work : own.all) work->release();
    own.timeline->know(issued_count);
  }
  works.clear();
  object_meetings.clear();
  const auto begin = [&](Group& group) {
    group.begin_anew();
    group.has_destroyed.assign(group.ranks.size(), false);
    note_absent_ranks(group);
  };
  if (world != nullptr) begin(*world);
  for (const auto& [number, group] : groups) begin(*group);
}

void DistributedContext::State::forget_groups(Forget which) {
  if (whole_world != nullptr) world = std::exchange(whole_world, nullptr);
  const auto forget = [&](const auto& entry) {
    Group& group = *entry.second;
    if (which == Forget::of_ranks && !group.is_of_ranks) return false;
    group.has_destroyed.assign(group.ranks.size(), true);
    group.release();
    return true;
  };
  std::erase_if(groups, forget);
  new_groups.clear();
  local_groups.clear();
}

}  // namespace kernbench::distributed
