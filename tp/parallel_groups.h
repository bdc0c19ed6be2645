// The groups of each rank, as parallel_state.h hands them out.

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/context/attachments.h"
#include "runtime/context/runtime_context.h"
#include "tp/global_memory_buffer.h"
#include "tp/parallel_layout.h"

namespace kernbench::tp {

// By GroupKind; of those that the rank is in none of: a non-member's.
using RankGroups = std::array<distributed::ProcessGroup, kGroupKindCount>;

// What a rank may have set in the place of what is so.
struct Override {
  std::optional<int> world_size;
  std::optional<int> rank;
};

// Of one rank; it begins and ends with its spawn().
struct ParallelState {
  std::shared_ptr<const ParallelLayout> layout;  // null: this rank has not initialized it
  RankGroups groups;
  bool has_destroyed = false;    // so that what was made for all does not count
  int initialization_count = 0;  // by this rank
  std::array<Override, kGroupKindCount> overrides;
  Override virtual_pipeline;
  GlobalMemoryBuffer memory_buffer;
};

// Of all: what was initialized before spawn(), and what ranks of a spawn() agree on.
struct SharedParallelState : runtime::Attachment {
  struct Initialization {
    int rank = 0;  // that came first
    std::shared_ptr<const ParallelLayout> layout;
  };

  void forget_ranks() override { of_ranks.clear(); }

  std::shared_ptr<const ParallelLayout> layout;  // null: it was not, before spawn()
  std::vector<RankGroups> groups;                // then, by global rank
  std::vector<Initialization> of_ranks;          // a rank's n-th is compared with entry n
};

// The caller.  Throws CollectiveError KB-R012 inside a kernel, where `what` cannot be used.
const runtime::FiberLocal& caller_outside_kernels(RuntimeContext& torch, std::string_view what);
// The caller's own state.  Throws CollectiveError KB-R012 inside a kernel.
ParallelState& own_state(RuntimeContext& torch);

// The layout that counts for the caller, and its groups; nullptr if there is none.
const ParallelLayout* find_layout(RuntimeContext& torch);
const RankGroups* find_groups(RuntimeContext& torch);

}  // namespace kernbench::tp
