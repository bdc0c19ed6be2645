// torch.distributed's default group: made, known to whom, and destroyed.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "runtime/context/runtime_context.h"
#include "runtime/context/simulation.h"
#include "runtime/distributed/backend.h"
#include "runtime/distributed/group.h"
#include "runtime/distributed/misuse.h"
#include "runtime/distributed/work_state.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

using runtime::FiberLocal;

DistributedContext::DistributedContext(RuntimeContext& torch) : torch_(torch) {}
DistributedContext::~DistributedContext() = default;

bool DistributedContext::is_backend_available(std::string_view backend) {
  return find_backend(backend) != nullptr;
}

const FiberLocal& DistributedContext::local() const {
  return torch_.simulation().local();
}

bool DistributedContext::is_initialized() const {
  return initialized_for_all_ ||
         (local().kind == FiberLocal::Kind::rank && initialized_ranks_.contains(local().rank));
}

void DistributedContext::init_process_group(std::string_view name, const InitOptions& options) {
  if (is_initialized()) misuse("trying to initialize the default process group twice!");
  const BackendFactory factory = find_backend(name);
  if (factory == nullptr) {
    misuse(fmt::format("Unknown c10d backend type {}; there are: {}", name,
                       fmt::join(backend_names(), ", ")));
  }
  if (backend_ != nullptr && backend_->name() != name) {
    misuse(
        fmt::format("init_process_group: another rank has made the group with backend '{}', not "
                    "'{}'",
                    backend_->name(), name));
  }
  std::unique_ptr<Backend> made;  // and unmade again if an argument is wrong
  if (backend_ == nullptr) made = factory(torch_, torch_.options().ccl.get());
  check_init(made == nullptr ? *backend_ : *made, options);
  if (made != nullptr) backend_ = std::move(made);
  if (world_ == nullptr) {
    const bool takes_some = options.world_size != -1 && !backend_->has_single_driver();
    std::vector<int> ranks(
        static_cast<std::size_t>(takes_some ? options.world_size : backend_->caller_count()));
    std::iota(ranks.begin(), ranks.end(), 0);
    world_ = make_group(std::move(ranks), "default_pg");
    communicator_of(*world_);
  }
  if (local().kind == FiberLocal::Kind::rank) {
    initialized_ranks_.insert(local().rank);
  } else {
    initialized_for_all_ = true;
  }
}

namespace {

// There is one process, and nobody to meet: any URL will do that PyTorch knows a handler for.
void check_init_method(std::string_view url) {
  const std::string_view scheme = url.substr(0, url.find("://"));
  if (url.empty() || scheme == "env" || scheme == "tcp" || scheme == "file") return;
  misuse(
      fmt::format("No rendezvous handler for {}://; there are: env, tcp, file, and none", scheme));
}

}  // namespace

int DistributedContext::world_size_on(const Backend& backend) const {
  return world_ == nullptr || backend.has_single_driver() ? backend.world_size() : world_->size();
}

void DistributedContext::check_world_size(const Backend& backend, int world_size) const {
  const int known = world_size_on(backend);
  if (world_size == -1 || world_size == known) return;
  if (backend.has_single_driver()) {
    misuse(fmt::format("world_size ({}) is not the number of PEs that are ranks ({})", world_size,
                       known));
  }
  if (world_ != nullptr) {
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
  const bool takes_some = options.world_size != -1 && world_ == nullptr;
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
  if (is_rank && !initialized_ranks_.contains(local().rank)) {
    misuse("the process group was made before spawn() and is destroyed after it, not by a rank");
  }
  const bool ranks_run =
      started_ranks_ && static_cast<int>(returned_ranks_.size()) < *started_ranks_;
  if (!is_rank && ranks_run) misuse("destroy_process_group while ranks run: join() them first");
  wait_for_works();  // they use what goes now
  leave_default_group();
}

// The last to leave takes it down.
void DistributedContext::leave_default_group() {
  if (local().kind == FiberLocal::Kind::rank) {
    initialized_ranks_.erase(local().rank);
  } else {
    initialized_for_all_ = false;
  }
  if (initialized_for_all_ || !initialized_ranks_.empty()) return;
  const std::unique_ptr<Backend> closing = std::move(backend_);
  forget_groups(Forget::all);
  world_.reset();
  group_count_ = 0;
  closing->close();
}

Backend& DistributedContext::backend() const {
  if (!is_initialized()) {
    misuse(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group.");
  }
  return *backend_;
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

// As find(), but a group that has been destroyed is no group that the caller is not a member of.
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
  return std::string(backend_->name());
}

// Who is not there, from the start.
void DistributedContext::note_absent_ranks(Group& group) {
  for (int rank = 0; rank < group.size() && started_ranks_; ++rank) {
    const int global = group.ranks[static_cast<std::size_t>(rank)];
    if (global >= *started_ranks_) group.ledger.leave(rank, false);
    if (returned_ranks_.contains(global)) group.ledger.leave(rank, true);
  }
}

void DistributedContext::ranks_start(int nprocs) {
  started_ranks_ = nprocs;
  torch_.simulation().flight_recorder().clear();
  returned_ranks_.clear();
  forget_groups(Forget::of_ranks);
  begin_anew();
}

// The caller's, whether they end well or not.
void DistributedContext::wait_for_works() {
  for (const auto& work : std::vector(works_[local().rank].all())) {
    work->wait([&] { return work->describe_wait(); });
  }
  know_all_done(local().rank);
}

void DistributedContext::know_all_done(int rank) {
  works_[rank].timeline()->know(issued_count_);
}

// A rank may leave works behind: they end, as torch's do, but it should have waited for them.  It
// is warned of them whether they had ended by then or not.
void DistributedContext::rank_ends() {
  constexpr int kMostWarnings = 5;
  const int rank = local().rank;
  int left = 0;
  while (const std::shared_ptr<Work::State> work = works_[rank].take_last()) {
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
  if (initialized_ranks_.contains(rank)) leave_default_group();
}

void DistributedContext::rank_returned(int rank) {
  returned_ranks_.insert(rank);
  const auto leave = [&](Group& group) {
    if (const auto member = group.rank_of(rank)) group.ledger.leave(*member, true);
  };
  if (world_ != nullptr) leave(*world_);
  for (const auto& [number, group] : groups_) leave(*group);
}

void DistributedContext::run_abandoned() {
  const auto abandon = [](const Group& group) {
    if (group.communicator != nullptr) group.communicator->abandon();
  };
  initialized_ranks_.clear();
  started_ranks_.reset();
  forget_groups(initialized_for_all_ ? Forget::of_ranks : Forget::all);
  if (!initialized_for_all_) {
    world_.reset();
    backend_.reset();
  }
  if (world_ == nullptr) return;
  abandon(*world_);
  for (const auto& [number, group] : groups_) abandon(*group);
  begin_anew();
}

// Calls are counted anew.
void DistributedContext::begin_anew() {
  for (const auto& [rank, works] : works_) {
    for (const std::shared_ptr<Work::State>& work : works.all()) work->release();
    works.timeline()->know(issued_count_);
  }
  works_.clear();
  object_exchanges_.clear();
  const auto begin = [&](Group& group) {
    group.begin_anew();
    group.has_destroyed.assign(group.ranks.size(), false);
    note_absent_ranks(group);
  };
  if (world_ != nullptr) begin(*world_);
  for (const auto& [number, group] : groups_) begin(*group);
}

void DistributedContext::forget_groups(Forget which) {
  const auto forget = [&](const auto& entry) {
    Group& group = *entry.second;
    if (which == Forget::of_ranks && !group.is_of_ranks) return false;
    group.has_destroyed.assign(group.ranks.size(), true);
    group.release();
    return true;
  };
  std::erase_if(groups_, forget);
  new_groups_.clear();
  local_groups_.clear();
}

}  // namespace kernbench::distributed
