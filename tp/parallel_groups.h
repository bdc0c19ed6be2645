// The groups of each rank, which parallel_state.h returns.

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/simulation/attachments.h"
#include "runtime/torch/runtime_context.h"
#include "tp/global_memory_buffer.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

// A rank's groups by GroupKind; a non-member's group for kinds of which the rank is in no group.
using RankGroups = std::array<distributed::ProcessGroup, kGroupKindCount>;

// Values that a rank has set to override the actual ones.
struct Override {
  std::optional<int> world_size;
  std::optional<int> rank;
};

// The state of one rank, which lives as long as its spawn().
struct ParallelState {
  std::shared_ptr<const ParallelLayout> layout;  // null: this rank has not initialized it
  RankGroups groups;
  bool has_destroyed = false;    // then the groups made for all do not count
  int initialization_count = 0;  // calls by this rank
  std::array<Override, kGroupKindCount> overrides;
  Override virtual_pipeline;
  GlobalMemoryBuffer memory_buffer;
};

// The state of all ranks: the groups initialized before spawn(), and the calls on which the ranks
// of a spawn() agree.
struct SharedParallelState : runtime::Attachment {
  struct Initialization {
    int rank = 0;  // the rank that called first
    std::shared_ptr<const ParallelLayout> layout;
  };

  void forget_ranks() override { of_ranks.clear(); }

  std::shared_ptr<const ParallelLayout> layout;  // null: not initialized before spawn()
  std::vector<RankGroups> groups;                // if it was, by global rank
  std::vector<Initialization> of_ranks;          // a rank's n-th call is compared with entry n
};

// The calling fiber.  Throws CollectiveError KB-R012, which names `what`, inside a kernel.
const runtime::FiberLocal& caller_outside_kernels(RuntimeContext& torch, std::string_view what);
// The caller's own state.  Throws CollectiveError KB-R012 inside a kernel.
ParallelState& own_state(RuntimeContext& torch);

// The layout in force for the caller; nullptr if there is none.
const ParallelLayout* find_layout(RuntimeContext& torch);
const RankGroups* find_groups(RuntimeContext& torch);

}  // namespace kernbench::tp
