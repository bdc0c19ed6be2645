// The keyword arguments of torch.distributed's functions.
//
// src and dst are global ranks, as in PyTorch, even where a group is given; group_src and group_dst
// are ranks in the group.  A timeout is accepted and not needed: what can never be done is found at
// once.

#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "runtime/distributed/process_group.h"

namespace kernbench::distributed {

using Timeout = std::optional<std::chrono::milliseconds>;

// -1: whatever there is.
struct InitOptions {
  int world_size = -1;
  int rank = -1;
  std::string init_method = {};  // accepted and ignored: there is but one process
  Timeout timeout = std::nullopt;
};

struct NewGroupOptions {
  Timeout timeout = std::nullopt;
  std::string backend = {};                // the default group's; another one is refused
  bool use_local_synchronization = false;  // only members call
  std::string group_desc = {};
  bool sort_ranks = true;
};

struct CollectiveOptions {
  ProcessGroup group = {};
  bool async_op = false;
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
  std::optional<int> src = std::nullopt;  // and no group_src: from any rank
  ProcessGroup group = {};
  int tag = 0;
  std::optional<int> group_src = std::nullopt;
};

struct MonitoredBarrierOptions {
  ProcessGroup group = {};
  Timeout timeout = std::nullopt;
  bool wait_all_ranks = false;
};

}  // namespace kernbench::distributed
