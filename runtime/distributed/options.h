// The keyword arguments of torch.distributed's functions.
//
// Options come last in every function, and then the arguments before them that have defaults may
// be left out: all_reduce(x, {.async_op = true}), isend(x, {.dst = 1, .group = g}).  A group alone
// stands for options with that group.
//
// src and dst are global ranks, as in PyTorch, even where a group is given; group_src and
// group_dst are ranks in the group.  A timeout is accepted but not needed: a call that can never
// complete is reported at once.

#pragma once

#include <optional>
#include <string>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/reduce_op.h"
#include "sim_engine/base/units.h"

namespace kernbench::distributed {

using Timeout = std::optional<std::chrono::milliseconds>;

// -1 means: use what the backend or the caller has.
struct InitOptions {
  int world_size = -1;
  int rank = -1;
  std::string init_method = {};  // accepted and ignored: there is only one process
  Timeout timeout = std::nullopt;
};

struct NewGroupOptions {
  Timeout timeout = std::nullopt;
  std::string backend = {};                // the default group's; another one is refused
  bool use_local_synchronization = false;  // only members call
  std::string group_desc = {};
  bool sort_ranks = true;
};

// Options of a reduction that may include its operation, since none is given before them.
struct ReductionOptions {
  ReduceOp op = ReduceOp::sum;
  ProcessGroup group = {};
  bool async_op = false;
};

struct CollectiveOptions {
  ProcessGroup group = {};
  bool async_op = false;

  operator ReductionOptions() const { return {.group = group, .async_op = async_op}; }
};

struct SourceOptions {
  std::optional<int> src = std::nullopt;
  ProcessGroup group = {};
  bool async_op = false;
  std::optional<int> group_src = std::nullopt;
};

struct DestinationOptions {
  std::optional<int> dst = std::nullopt;
  ProcessGroup group = {};
  bool async_op = false;
  std::optional<int> group_dst = std::nullopt;
};

struct SendOptions {
  std::optional<int> dst = std::nullopt;
  ProcessGroup group = {};
  int tag = 0;
  std::optional<int> group_dst = std::nullopt;
};

struct RecvOptions {
  std::optional<int> src = std::nullopt;  // any rank if group_src is not given either
  ProcessGroup group = {};
  int tag = 0;
  std::optional<int> group_src = std::nullopt;
};

struct MonitoredBarrierOptions {
  ProcessGroup group = {};
  Timeout timeout = std::nullopt;
  bool wait_all_ranks = false;
};

// Settings of a backend, opaque to the runtime (RuntimeOptions::ccl).
class BackendConfig {
 public:
  virtual ~BackendConfig() = default;
};

}  // namespace kernbench::distributed
