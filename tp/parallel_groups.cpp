#include "tp/parallel_groups.h"

#include "runtime/simulation/attachments.h"
#include "runtime/simulation/gate.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

using runtime::FiberLocal;

namespace {

SharedParallelState& shared_state(RuntimeContext& torch) {
  return simulation_of(torch).attachments().get<SharedParallelState>();
}

bool is_driver(RuntimeContext& torch) {
  return simulation_of(torch).local().kind == FiberLocal::Kind::unbound;
}

// Ranks that initialize themselves must agree on the layout: the first call of each round sets it.
std::shared_ptr<const ParallelLayout> agreed_layout(RuntimeContext& torch, ParallelState& state,
                                                    const ModelParallelOptions& options) {
  std::vector<SharedParallelState::Initialization>& all = shared_state(torch).of_ranks;
  const auto number = static_cast<std::size_t>(state.initialization_count);
  const int rank = simulation_of(torch).local().rank;
  if (number == all.size()) {
    all.push_back({rank, std::make_shared<const ParallelLayout>(
                             options, torch.distributed.get_world_size())});
  }
  const auto& [first, layout] = all[number];
  if (!(layout->options() == options)) {
    throw CollectiveMismatchError(
        "KB-C001",
        "Detected mismatch between ranks. Rank {} called initialize_model_parallel({}), but rank "
        "{} called initialize_model_parallel({})",
        first, to_string(layout->options()), rank, to_string(options));
  }
  ++state.initialization_count;
  return layout;
}

// Makes the rank's own groups.  Only their members meet, so that a rank only pays for its own
// groups.
RankGroups make_groups_of_rank(RuntimeContext& torch, const ParallelLayout& layout) {
  const int rank = torch.distributed.get_rank();
  RankGroups groups;
  for (std::size_t i = 0; i < kGroupKindCount; ++i) {
    const auto kind = static_cast<GroupKind>(i);
    const std::vector<int> ranks = layout.group_of(kind, rank);
    groups[i] = ranks.empty() ? ProcessGroup::non_member()
                              : torch.distributed.new_group(
                                    std::span(ranks),
                                    {.use_local_synchronization = true,
                                     .group_desc = std::string(traits_of(kind).description)});
  }
  return groups;
}

// Makes the groups of all ranks, for a single driver.
std::vector<RankGroups> make_groups_of_all(RuntimeContext& torch, const ParallelLayout& layout,
                                           int world_size) {
  RankGroups none;
  none.fill(ProcessGroup::non_member());
  std::vector<RankGroups> groups(static_cast<std::size_t>(world_size), none);
  for (std::size_t i = 0; i < kGroupKindCount; ++i) {
    const auto kind = static_cast<GroupKind>(i);
    for (const std::vector<int>& ranks : layout.groups(kind)) {
      const ProcessGroup group = torch.distributed.new_group(
          std::span(ranks), {.group_desc = std::string(traits_of(kind).description)});
      for (const int rank : ranks) groups[static_cast<std::size_t>(rank)][i] = group;
    }
  }
  return groups;
}

// Destroys what make_groups_of_all() has made, except groups that the caller has destroyed since.
void destroy_groups_of_all(RuntimeContext& torch, const SharedParallelState& state) {
  for (std::size_t rank = 0; rank < state.groups.size(); ++rank) {
    for (std::size_t i = 0; i < kGroupKindCount; ++i) {
      const auto kind = static_cast<GroupKind>(i);
      const std::vector<int> ranks = state.layout->group_of(kind, static_cast<int>(rank));
      if (ranks.empty() || ranks.front() != static_cast<int>(rank)) continue;  // one of its members
      try {
        torch.distributed.destroy_process_group(state.groups[rank][i]);
      } catch (const CollectiveError& error) {
        if (error.code() != "KB-R002") throw;  // destroyed already
      }
    }
  }
}

}  // namespace

const FiberLocal& caller_outside_kernels(RuntimeContext& torch, std::string_view what) {
  runtime::check_outside_kernels(simulation_of(torch), what);
  return simulation_of(torch).local();
}

ParallelState& own_state(RuntimeContext& torch) {
  const FiberLocal& caller = caller_outside_kernels(torch, "the model parallel state is");
  return simulation_of(torch).attachments().get<runtime::PerRank<ParallelState>>().of(caller);
}

const ParallelLayout* find_layout(RuntimeContext& torch) {
  const ParallelState& own = own_state(torch);
  if (own.layout != nullptr) return own.layout.get();
  return own.has_destroyed ? nullptr : shared_state(torch).layout.get();
}

const RankGroups* find_groups(RuntimeContext& torch) {
  const ParallelState& own = own_state(torch);
  if (own.layout != nullptr) return &own.groups;
  if (own.has_destroyed) return nullptr;
  const std::vector<RankGroups>& all = shared_state(torch).groups;
  const auto rank = static_cast<std::size_t>(simulation_of(torch).local().rank);
  return rank < all.size() ? &all[rank] : nullptr;
}

void initialize_model_parallel(RuntimeContext& torch, const ModelParallelOptions& options) {
  ParallelState& own = own_state(torch);
  const int world_size = torch.distributed.get_world_size();
  if (find_layout(torch) != nullptr) wrong_order("data parallel group is already initialized");
  if (is_driver(torch)) {
    auto layout = std::make_shared<const ParallelLayout>(options, world_size);
    SharedParallelState& shared = shared_state(torch);
    shared.groups = make_groups_of_all(torch, *layout, world_size);
    shared.layout = std::move(layout);
  } else {
    auto layout = agreed_layout(torch, own, options);
    own.groups = make_groups_of_rank(torch, *layout);
    own.layout = std::move(layout);
  }
}

void destroy_model_parallel(RuntimeContext& torch) {
  ParallelState& own = own_state(torch);
  const int count = own.initialization_count;
  own = {};
  if (is_driver(torch)) {
    SharedParallelState& shared = shared_state(torch);
    if (shared.layout != nullptr) destroy_groups_of_all(torch, shared);
    shared.layout.reset();
    shared.groups.clear();
  } else {
    own.has_destroyed = true;
    own.initialization_count = count;
  }
}

}  // namespace kernbench::tp
