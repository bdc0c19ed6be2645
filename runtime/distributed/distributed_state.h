// The state of a DistributedContext: its groups, and the ranks' operations under way.

#pragma once

#include <any>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/distributed.h"
#include "runtime/distributed/group.h"
#include "runtime/distributed/work_list.h"

namespace kernbench::distributed {

struct DistributedContext::State {
  // A group that ranks are making, kept until all ranks that must call new_group() have called.
  struct NewGroup {
    std::shared_ptr<Group> group;
    int handed_out = 0;
  };
  // Groups of the same ranks, made by their members alone (use_local_synchronization).
  struct LocalGroups {
    std::map<int, NewGroup> made;  // by number: groups that not all members have received yet
    std::map<int, int> taken;      // by global rank: groups received
  };

  struct ObjectExchange;

  std::unique_ptr<Backend> backend;
  std::shared_ptr<Group> world;
  std::map<int, std::shared_ptr<Group>> groups;          // the others, by number
  std::map<std::uint64_t, NewGroup> new_groups;          // by operation
  std::map<std::vector<int>, LocalGroups> local_groups;  // by ranks
  int group_count = 0;                                   // for names
  std::map<std::uint64_t, std::shared_ptr<ObjectExchange>> object_exchanges;
  std::map<int, WorkList> works;   // by global rank
  std::uint64_t issued_count = 0;  // operations issued with async_op, and messages
  bool initialized_for_all = false;
  std::set<int> initialized_ranks;   // those that called init_process_group() themselves
  std::optional<int> started_ranks;  // by the spawn() that is or was the last to run
  std::set<int> returned_ranks;      // of those
};

}  // namespace kernbench::distributed
