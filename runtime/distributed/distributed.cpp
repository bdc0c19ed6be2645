#include "runtime/distributed/distributed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/context/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

namespace {

using runtime::FiberLocal;

[[noreturn]] void misuse(std::string_view text) {
  throw CollectiveError("KB-R002", text);
}

// Shows in deadlock reports which collective a rank is in, as long as it is in it.
class InCollective {
 public:
  InCollective(FiberLocal& local, std::string text) : local_(local) {
    local_.collective = std::move(text);
  }
  ~InCollective() { local_.collective.clear(); }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  FiberLocal& local_;
};

}  // namespace

DistributedContext::DistributedContext(RuntimeContext& torch) : torch_(torch) {}
DistributedContext::~DistributedContext() = default;

bool DistributedContext::is_initialized() const {
  const FiberLocal& local = torch_.simulation().local();
  return initialized_for_all_ ||
         (local.kind == FiberLocal::Kind::rank && initialized_ranks_.contains(local.rank));
}

void DistributedContext::init_process_group(std::string_view name, const InitOptions& options) {
  if (is_initialized()) misuse("trying to initialize the default process group twice!");
  const BackendFactory factory = find_backend(name);
  if (factory == nullptr) {
    misuse(fmt::format("Unknown c10d backend type {}; there are: {}", name,
                       fmt::join(backend_names(), ", ")));
  }
  std::unique_ptr<Backend> made;  // and unmade again if an argument is wrong
  if (backend_ == nullptr) made = factory(torch_, torch_.options().ccl.get());
  const int world_size = (made == nullptr ? backend_ : made)->world_size();
  if (options.world_size != -1 && options.world_size != world_size) {
    if ((made == nullptr ? backend_ : made)->caller_count() != world_size) {
      misuse(fmt::format("world_size ({}) is not the number of PEs that are ranks ({})",
                         options.world_size, world_size));
    }
    misuse(fmt::format("world_size ({}) is not the number of SIPs of topology '{}' ({})",
                       options.world_size, torch_.topology().name, world_size));
  }
  if (options.rank >= world_size) {
    misuse(fmt::format("Cannot init process group where rank ({}) >= world_size ({})", options.rank,
                       world_size));
  }
  if (options.rank < -1) {
    misuse(fmt::format("Cannot init process group where rank ({}) is negative", options.rank));
  }
  const FiberLocal& local = torch_.simulation().local();
  if (local.kind == FiberLocal::Kind::rank && options.rank != -1 && options.rank != local.rank) {
    misuse(fmt::format("init_process_group: rank ({}) is not this rank's own ({})", options.rank,
                       local.rank));
  }
  if (made != nullptr) backend_ = std::move(made);
  if (ledger_ == nullptr) make_ledger();
  if (local.kind == FiberLocal::Kind::rank) {
    initialized_ranks_.insert(local.rank);
  } else {
    initialized_for_all_ = true;
  }
}

void DistributedContext::destroy_process_group() {
  if (!is_initialized()) misuse("Process group cannot be None");
  const FiberLocal& local = torch_.simulation().local();
  if (local.kind == FiberLocal::Kind::rank && initialized_ranks_.erase(local.rank) == 0) {
    misuse("the process group was made before spawn() and is destroyed after it, not by a rank");
  }
  if (local.kind != FiberLocal::Kind::rank) initialized_for_all_ = false;
  if (initialized_for_all_ || !initialized_ranks_.empty()) return;
  const std::unique_ptr<Backend> closing = std::move(backend_);
  ledger_.reset();
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

int DistributedContext::get_rank() const {
  backend();
  const FiberLocal& local = torch_.simulation().local();
  if (local.kind != FiberLocal::Kind::rank && std::getenv("KERNBENCH_DEBUG") != nullptr) {
    fmt::print(stderr,
               "kernbench: warning: get_rank() outside a rank returns 0; a bug unless there "
               "is a single driver\n");
  }
  return local.kind == FiberLocal::Kind::rank ? local.rank : 0;
}

int DistributedContext::get_world_size() const {
  return backend().world_size();
}

std::string DistributedContext::get_backend() const {
  return std::string(backend().name());
}

CollectiveCall DistributedContext::arrive(const CollectiveFingerprint& fingerprint) {
  const FiberLocal& local = torch_.simulation().local();
  if (local.kind == FiberLocal::Kind::kernel) {
    throw CollectiveError(
        "KB-R012", fmt::format("{} called inside kernel '{}'", fingerprint.function, local.kernel));
  }
  const int callers = backend().caller_count();
  if (callers == 1 && backend().world_size() > 1 && local.rank > 0) {
    throw CollectiveError(
        "KB-C006", fmt::format("rank {} called {}, but the ranks of this group are {} PEs, for "
                               "which a single driver calls: call it outside spawn(), or take "
                               "world_size out of ccl.yaml",
                               local.rank, fingerprint.function, backend().world_size()));
  }
  if (local.rank >= callers) {
    throw CollectiveError("KB-C006",
                          fmt::format("rank {} is not a member of the default group of {} "
                                      "ranks",
                                      local.rank, callers));
  }
  if (local.kind == FiberLocal::Kind::unbound) {  // no spawn(): nobody else will come
    for (int rank = 1; rank < callers; ++rank) ledger_->leave(rank, false);
  }
  runtime::Simulation& simulation = torch_.simulation();
  const CollectiveCall call = ledger_->arrive(local.rank, fingerprint, simulation.next_operation());
  simulation.begin(call.operation);
  return call;
}

void DistributedContext::all_reduce(Tensor& x, ReduceOp op, std::source_location location) {
  Backend& ahbm = backend();
  if (x.is_host()) {
    misuse("all_reduce: a host tensor cannot take part; make it by torch.zeros, full, ...");
  }
  torch_.check_on_device(x, "all_reduce");
  const CollectiveFingerprint fingerprint{"all_reduce",
                                          "ALLREDUCE",
                                          to_string(x.shape()),
                                          std::string(torch_name_of(x.dtype())),
                                          std::string(name_of(op)),
                                          to_string(x.dp()),
                                          x.device(),
                                          location};
  const CollectiveCall call = arrive(fingerprint);
  const InCollective in(torch_.simulation().local(), describe(fingerprint, call.sequence));
  ahbm.all_reduce(call, x, op);
}

void DistributedContext::barrier(std::source_location location) {
  Backend& ahbm = backend();
  CollectiveFingerprint fingerprint{.function = "barrier", .op_type = "BARRIER"};
  fingerprint.location = location;
  const CollectiveCall call = arrive(fingerprint);
  const InCollective in(torch_.simulation().local(), describe(fingerprint, call.sequence));
  ahbm.barrier(call);
}

// Knows from the start who is not there.
void DistributedContext::make_ledger() {
  const int callers = backend_->caller_count();
  ledger_ = std::make_unique<CollectiveLedger>(callers);
  for (int rank = 0; rank < callers && started_ranks_; ++rank) {
    if (rank >= *started_ranks_) ledger_->leave(rank, false);
    if (returned_ranks_.contains(rank)) ledger_->leave(rank, true);
  }
}

void DistributedContext::ranks_start(int nprocs) {
  started_ranks_ = nprocs;
  returned_ranks_.clear();
  if (ledger_ != nullptr) make_ledger();
}

void DistributedContext::rank_returned(int rank) {
  initialized_ranks_.erase(rank);
  returned_ranks_.insert(rank);
  if (ledger_ != nullptr && rank < backend_->caller_count()) ledger_->leave(rank, true);
}

void DistributedContext::run_abandoned() {
  initialized_ranks_.clear();
  started_ranks_.reset();
  ledger_.reset();
  if (!initialized_for_all_) backend_.reset();
  if (backend_ != nullptr) make_ledger();
}

}  // namespace kernbench::distributed
