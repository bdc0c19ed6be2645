// torch.distributed: process groups and collectives.

#pragma once

#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <string_view>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/collective_ledger.h"

namespace kernbench {

class RuntimeContext;

namespace multiprocessing {
class Multiprocessing;
}

namespace distributed {

// As torch.distributed.init_process_group's arguments.  -1: whatever there is.
struct InitOptions {
  int world_size = -1;
  int rank = -1;
};

// The member `torch.distributed` of a RuntimeContext.  Method names, and the texts of errors, are
// PyTorch's.  State is per context, and per rank where ranks may differ.
class DistributedContext {
 public:
  explicit DistributedContext(RuntimeContext& torch);
  ~DistributedContext();
  DistributedContext(const DistributedContext&) = delete;
  DistributedContext& operator=(const DistributedContext&) = delete;

  // Makes the default group.  Called once before spawn(), or once by every rank.
  // Throws CollectiveError KB-R002: twice, unknown backend, or world size or rank that are not so.
  void init_process_group(std::string_view backend = "ahbm", const InitOptions& options = {});

  // Throws CollectiveError KB-R002 if there is no group.  The last one to leave gets DeviceError
  // KB-Q003 if kernels of the user's have left messages in the group's queues.
  void destroy_process_group();

  // Whether the caller has a group: one that was made for all, or by itself if it is a rank.
  bool is_initialized() const;
  static constexpr bool is_available() { return true; }

  // The caller's rank.  Code that is no rank is rank 0 (a single driver); with KERNBENCH_DEBUG set
  // it is warned.
  int get_rank() const;
  int get_world_size() const;
  std::string get_backend() const;

  // x becomes the elementwise sum over ranks of the logical tensor, in place, with the same bits on
  // all ranks.  A placement that was partial is replicated afterwards.  Blocks the calling rank.
  // Throws CollectiveMismatchError KB-C001 (ranks called different things), DeadlockError KB-C002
  // (a rank has left), CollectiveError KB-C011 (two ranks, one device), KB-R012 (inside a kernel).
  void all_reduce(Tensor& x, ReduceOp op = ReduceOp::sum,
                  std::source_location location = std::source_location::current());

  // Returns when every rank has called it.  Errors as of all_reduce().
  void barrier(std::source_location location = std::source_location::current());

 private:
  friend class multiprocessing::Multiprocessing;

  // `nprocs` ranks are about to start; a rank has returned; the run was abandoned.
  void ranks_start(int nprocs);
  void rank_returned(int rank);
  void run_abandoned();

  Backend& backend() const;
  CollectiveCall arrive(const CollectiveFingerprint& fingerprint);
  void make_ledger();

  RuntimeContext& torch_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<CollectiveLedger> ledger_;
  bool initialized_for_all_ = false;
  std::set<int> initialized_ranks_;   // those that called init_process_group() themselves
  std::optional<int> started_ranks_;  // by the spawn() that is or was the last to run
  std::set<int> returned_ranks_;      // of those
};

}  // namespace distributed
}  // namespace kernbench
