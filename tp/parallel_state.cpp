#include "tp/parallel_state.h"

#include <fmt/format.h>

#include "tp/misuse.h"
#include "tp/parallel_groups.h"

namespace kernbench::tp {

namespace {

[[noreturn]] void not_initialized(GroupKind kind) {
  wrong_order(fmt::format("{} is not initialized", traits_of(kind).name));
}

// The caller's group of that kind; a non-member's if the caller is in none.
const ProcessGroup& group_or_none(RuntimeContext& torch, GroupKind kind) {
  const RankGroups* const groups = find_groups(torch);
  if (groups == nullptr) not_initialized(kind);
  return (*groups)[static_cast<std::size_t>(kind)];
}

const ProcessGroup& group_of(RuntimeContext& torch, GroupKind kind) {
  const ProcessGroup& group = group_or_none(torch, kind);
  if (group.is_non_member()) not_initialized(kind);
  return group;
}

Override& override_of(RuntimeContext& torch, GroupKind kind) {
  return own_state(torch).overrides[static_cast<std::size_t>(kind)];
}

int world_size_of(RuntimeContext& torch, GroupKind kind) {
  if (const auto& set = override_of(torch, kind).world_size) return *set;
  return group_of(torch, kind).size();
}

int rank_of(RuntimeContext& torch, GroupKind kind) {
  if (const auto& set = override_of(torch, kind).rank) return *set;
  return torch.distributed.get_rank(group_of(torch, kind));
}

int first_rank_of(RuntimeContext& torch, GroupKind kind) {
  return group_of(torch, kind).ranks().front();
}

GroupKind data_kind(bool with_context_parallel) {
  return with_context_parallel ? GroupKind::data_with_context : GroupKind::data;
}

// The global rank `distance` stages after the caller's, wrapping around.
int pipeline_neighbour(RuntimeContext& torch, int distance) {
  const std::vector<int>& stages = group_of(torch, GroupKind::pipeline).ranks();
  const int count = static_cast<int>(stages.size());
  const int stage = rank_of(torch, GroupKind::pipeline) + distance;
  return stages[static_cast<std::size_t>((stage % count + count) % count)];
}

int virtual_stage(RuntimeContext& torch, const std::optional<int>& given) {
  return given ? *given : get_virtual_pipeline_model_parallel_rank(torch).value_or(0);
}

}  // namespace

bool is_initialized(RuntimeContext& torch) {
  return find_groups(torch) != nullptr;
}

// All groups are made together, so one check suffices.
bool model_parallel_is_initialized(RuntimeContext& torch) {
  return is_initialized(torch);
}

#define KERNBENCH_GROUP(getter, kind)          \
  ProcessGroup getter(RuntimeContext& torch) { \
    return group_of(torch, GroupKind::kind);   \
  }
KERNBENCH_GROUP(get_model_parallel_group, model)
KERNBENCH_GROUP(get_tensor_model_parallel_group, tensor)
KERNBENCH_GROUP(get_pipeline_model_parallel_group, pipeline)
KERNBENCH_GROUP(get_context_parallel_group, context)
KERNBENCH_GROUP(get_tensor_and_context_parallel_group, tensor_context)
KERNBENCH_GROUP(get_expert_model_parallel_group, expert_model)
KERNBENCH_GROUP(get_expert_tensor_parallel_group, expert_tensor)
KERNBENCH_GROUP(get_expert_tensor_and_model_parallel_group, expert_tensor_and_model)
KERNBENCH_GROUP(get_expert_tensor_model_pipeline_parallel_group, expert_tensor_model_pipeline)
KERNBENCH_GROUP(get_expert_data_parallel_group, expert_data)
KERNBENCH_GROUP(get_embedding_group, embedding)
KERNBENCH_GROUP(get_position_embedding_group, position_embedding)
#undef KERNBENCH_GROUP

#define KERNBENCH_NUMBER(getter, function, kind) \
  int getter(RuntimeContext& torch) {            \
    return function(torch, GroupKind::kind);     \
  }
KERNBENCH_NUMBER(get_tensor_model_parallel_world_size, world_size_of, tensor)
KERNBENCH_NUMBER(get_tensor_model_parallel_rank, rank_of, tensor)
KERNBENCH_NUMBER(get_pipeline_model_parallel_world_size, world_size_of, pipeline)
KERNBENCH_NUMBER(get_pipeline_model_parallel_rank, rank_of, pipeline)
KERNBENCH_NUMBER(get_context_parallel_world_size, world_size_of, context)
KERNBENCH_NUMBER(get_context_parallel_rank, rank_of, context)
KERNBENCH_NUMBER(get_tensor_and_context_parallel_world_size, world_size_of, tensor_context)
KERNBENCH_NUMBER(get_tensor_and_context_parallel_rank, rank_of, tensor_context)
KERNBENCH_NUMBER(get_expert_model_parallel_world_size, world_size_of, expert_model)
KERNBENCH_NUMBER(get_expert_model_parallel_rank, rank_of, expert_model)
KERNBENCH_NUMBER(get_expert_tensor_parallel_world_size, world_size_of, expert_tensor)
KERNBENCH_NUMBER(get_expert_tensor_parallel_rank, rank_of, expert_tensor)
KERNBENCH_NUMBER(get_expert_tensor_and_model_parallel_world_size, world_size_of,
                 expert_tensor_and_model)
KERNBENCH_NUMBER(get_expert_tensor_and_model_parallel_rank, rank_of, expert_tensor_and_model)
KERNBENCH_NUMBER(get_expert_data_parallel_world_size, world_size_of, expert_data)
KERNBENCH_NUMBER(get_expert_data_parallel_rank, rank_of, expert_data)
#undef KERNBENCH_NUMBER

ProcessGroup group_or_tensor_model_parallel(RuntimeContext& torch, const OptionalGroup& group) {
  return group ? *group : get_tensor_model_parallel_group(torch);
}

ProcessGroup get_data_parallel_group(RuntimeContext& torch, bool with_context_parallel) {
  return group_of(torch, data_kind(with_context_parallel));
}
ProcessGroup get_tensor_and_data_parallel_group(RuntimeContext& torch, bool with_context_parallel) {
  return group_of(torch,
                  with_context_parallel ? GroupKind::tensor_data_context : GroupKind::tensor_data);
}

int get_data_parallel_world_size(RuntimeContext& torch, bool with_context_parallel) {
  return world_size_of(torch, data_kind(with_context_parallel));
}
int get_data_parallel_rank(RuntimeContext& torch, bool with_context_parallel) {
  return rank_of(torch, data_kind(with_context_parallel));
}

std::vector<int> get_context_parallel_global_ranks(RuntimeContext& torch) {
  return group_of(torch, GroupKind::context).ranks();
}
int get_tensor_model_parallel_src_rank(RuntimeContext& torch) {
  return first_rank_of(torch, GroupKind::tensor);
}
int get_model_parallel_src_rank(RuntimeContext& torch) {
  return first_rank_of(torch, GroupKind::model);
}
int get_data_parallel_src_rank(RuntimeContext& torch, bool with_context_parallel) {
  return first_rank_of(torch, data_kind(with_context_parallel));
}
int get_pipeline_model_parallel_first_rank(RuntimeContext& torch) {
  return first_rank_of(torch, GroupKind::pipeline);
}
int get_pipeline_model_parallel_last_rank(RuntimeContext& torch) {
  return group_of(torch, GroupKind::pipeline).ranks().back();
}
int get_pipeline_model_parallel_next_rank(RuntimeContext& torch) {
  return pipeline_neighbour(torch, 1);
}
int get_pipeline_model_parallel_prev_rank(RuntimeContext& torch) {
  return pipeline_neighbour(torch, -1);
}

bool is_pipeline_first_stage(RuntimeContext& torch, bool ignore_virtual,
                             std::optional<int> vp_stage) {
  const auto virtual_stages = get_virtual_pipeline_model_parallel_world_size(torch);
  if (!ignore_virtual && virtual_stages && virtual_stage(torch, vp_stage) != 0) return false;
  return get_pipeline_model_parallel_rank(torch) == 0;
}

bool is_pipeline_last_stage(RuntimeContext& torch, bool ignore_virtual,
                            std::optional<int> vp_stage) {
  const auto virtual_stages = get_virtual_pipeline_model_parallel_world_size(torch);
  if (!ignore_virtual && virtual_stages && virtual_stage(torch, vp_stage) != *virtual_stages - 1) {
    return false;
  }
  return get_pipeline_model_parallel_rank(torch) ==
         get_pipeline_model_parallel_world_size(torch) - 1;
}

bool is_rank_in_embedding_group(RuntimeContext& torch, bool ignore_virtual,
                                std::optional<int> vp_stage) {
  const ProcessGroup& group = group_or_none(torch, GroupKind::embedding);
  if (group.is_non_member() || ignore_virtual) return !group.is_non_member();
  const int rank = torch.distributed.get_rank();
  if (rank == group.ranks().front() && is_pipeline_first_stage(torch, false, vp_stage)) return true;
  return rank == group.ranks().back() && is_pipeline_last_stage(torch, false, vp_stage);
}

bool is_rank_in_position_embedding_group(RuntimeContext& torch) {
  return !group_or_none(torch, GroupKind::position_embedding).is_non_member();
}

std::optional<int> get_virtual_pipeline_model_parallel_world_size(RuntimeContext& torch) {
  if (const auto& set = own_state(torch).virtual_pipeline.world_size) return set;
  const ParallelLayout* const layout = find_layout(torch);
  return layout == nullptr ? std::nullopt : layout->options().virtual_pipeline_model_parallel_size;
}

std::optional<int> get_virtual_pipeline_model_parallel_rank(RuntimeContext& torch) {
  if (const auto& set = own_state(torch).virtual_pipeline.rank) return set;
  return get_virtual_pipeline_model_parallel_world_size(torch) ? std::optional(0) : std::nullopt;
}

#define KERNBENCH_OVERRIDE(setter, kind, member)                  \
  void setter(RuntimeContext& torch, std::optional<int> member) { \
    override_of(torch, GroupKind::kind).member = member;          \
  }
KERNBENCH_OVERRIDE(set_tensor_model_parallel_world_size, tensor, world_size)
KERNBENCH_OVERRIDE(set_tensor_model_parallel_rank, tensor, rank)
KERNBENCH_OVERRIDE(set_pipeline_model_parallel_world_size, pipeline, world_size)
KERNBENCH_OVERRIDE(set_pipeline_model_parallel_rank, pipeline, rank)
KERNBENCH_OVERRIDE(set_data_parallel_rank, data, rank)
KERNBENCH_OVERRIDE(set_expert_model_parallel_world_size, expert_model, world_size)
KERNBENCH_OVERRIDE(set_expert_model_parallel_rank, expert_model, rank)
KERNBENCH_OVERRIDE(set_expert_tensor_parallel_world_size, expert_tensor, world_size)
KERNBENCH_OVERRIDE(set_expert_tensor_parallel_rank, expert_tensor, rank)
#undef KERNBENCH_OVERRIDE

void set_virtual_pipeline_model_parallel_world_size(RuntimeContext& torch,
                                                    std::optional<int> world_size) {
  own_state(torch).virtual_pipeline.world_size = world_size;
}
void set_virtual_pipeline_model_parallel_rank(RuntimeContext& torch, std::optional<int> rank) {
  own_state(torch).virtual_pipeline.rank = rank;
}

GlobalMemoryBuffer& get_global_memory_buffer(RuntimeContext& torch) {
  if (find_layout(torch) == nullptr) wrong_order("global memory buffer is not initialized");
  return own_state(torch).memory_buffer;
}

}  // namespace kernbench::tp
