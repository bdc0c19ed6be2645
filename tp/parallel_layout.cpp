#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

namespace {

constexpr std::array<GroupKindTraits, kGroupKindCount> kTraits = {{
    {"DATA_PARALLEL_GROUP_WITH_CP", "dp-cp", false,
     "data parallel group with context parallel combined"},
    {"DATA_PARALLEL_GROUP", "dp", false, "data parallel group"},
    {"CONTEXT_PARALLEL_GROUP", "cp", false, "context parallel group"},
    {"MODEL_PARALLEL_GROUP", "tp-pp", false, "model parallel group"},
    {"TENSOR_MODEL_PARALLEL_GROUP", "tp", false, "tensor model parallel group"},
    {"PIPELINE_MODEL_PARALLEL_GROUP", "pp", false, "pipeline_model parallel group"},
    {"EMBEDDING_GROUP", "pp", false, "embedding group"},
    {"POSITION_EMBEDDING_GROUP", "pp", false, "position embedding group"},
    {"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "tp-dp-cp", false,
     "tensor and data parallel group with context parallel combined"},
    {"TENSOR_AND_DATA_PARALLEL_GROUP", "tp-dp", false, "tensor and data parallel group"},
    {"TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp-cp", false, "tensor and context parallel group"},
    {"EXPERT_MODEL_PARALLEL_GROUP", "ep", true, "expert model parallel group"},
    {"EXPERT_TENSOR_PARALLEL_GROUP", "tp", true, "Expert tensor parallel group"},
    {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "tp-ep", true,
     "Expert tensor and model parallel group"},
    {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "tp-ep-pp", true,
     "Expert tensor-model-pipeline parallel group"},
    {"EXPERT_DATA_PARALLEL_GROUP", "dp", true, "Expert data parallel group"},
}};

bool is_of_embeddings(GroupKind kind) {
  return kind == GroupKind::embedding || kind == GroupKind::position_embedding;
}

// The ranks of a pipeline, `stages`, that are in the embedding group of this kind.
std::vector<int> with_embeddings(GroupKind kind, const std::vector<int>& stages) {
  if (kind == GroupKind::position_embedding || stages.size() == 1) return {stages.front()};
  return {stages.front(), stages.back()};
}

// The product of the model's sizes, which may exceed the number of ranks in any world.
std::int64_t product(std::initializer_list<std::pair<std::string_view, int>> sizes) {
  std::int64_t result = 1;
  for (const auto& [name, size] : sizes) {
    if (size < 1) wrong_sizes(fmt::format("{} is {}; at least 1", name, size));
    result = std::min<std::int64_t>(result * size, INT32_MAX);
  }
  return result;
}

// Refuses what Megatron has and this machine does not.
void check_without_meaning(const ModelParallelOptions& options) {
  struct Option {
    bool is_default;
    std::string_view text;
  };
  const Option kOptions[] = {
      {options.pipeline_model_parallel_comm_backend.empty(),
       "pipeline_model_parallel_comm_backend: all groups of a run have one backend; leave it out"},
      {!options.use_sharp && options.sharp_enabled_group.empty(),
       "use_sharp, sharp_enabled_group: there is no SHARP; ccl.yaml chooses switch_allreduce"},
      {options.hierarchical_context_parallel_sizes.empty() && !options.hybrid_context_parallel,
       "hierarchical_context_parallel_sizes, hybrid_context_parallel: a context parallel group has "
       "no parts; make them by torch.distributed.new_group"},
      {options.num_distributed_optimizer_instances == 1,
       "num_distributed_optimizer_instances: MegatronOptimizer shards over the whole data parallel "
       "group; 1 is wanted"},
      {options.nccl_communicator_config_path.empty(),
       "nccl_communicator_config_path: there is no NCCL; --ccl takes a ccl.yaml"},
      {options.high_priority_stream_groups.empty(),
       "high_priority_stream_groups: communication has channels of its own; leave it out"},
      {options.rank_offset == 0,
       "rank_offset: the model's ranks are the world's; init_process_group's world_size leaves the "
       "last ones out"},
      {options.distributed_timeout_minutes > 0, "distributed_timeout_minutes: at least 1"}};
  for (const Option& option : kOptions) {
    if (!option.is_default) wrong_sizes(option.text);
  }
}

ParallelSizes dense_sizes(const ModelParallelOptions& options, int world_size) {
  const int tp = options.tensor_model_parallel_size;
  const int pp = options.pipeline_model_parallel_size;
  const int cp = options.context_parallel_size;
  check_without_meaning(options);
  const std::int64_t model = product({{"tensor_model_parallel_size", tp},
                                      {"pipeline_model_parallel_size", pp},
                                      {"context_parallel_size", cp}});
  if (world_size % model != 0) {
    wrong_sizes(fmt::format("world_size ({}) is not divisible by {}", world_size, model));
  }
  return {.tp = tp, .ep = 1, .dp = static_cast<int>(world_size / model), .pp = pp, .cp = cp};
}

ParallelSizes expert_sizes(const ModelParallelOptions& options, int world_size) {
  const int tp = options.expert_tensor_parallel_size.value_or(options.tensor_model_parallel_size);
  const int ep = options.expert_model_parallel_size;
  const int pp = options.pipeline_model_parallel_size;
  const std::int64_t model = product({{"expert_tensor_parallel_size", tp},
                                      {"expert_model_parallel_size", ep},
                                      {"pipeline_model_parallel_size", pp}});
  if (world_size % model != 0) {
    wrong_sizes(
        fmt::format("decoder world_size ({}) is not divisible by "
                    "expert_tensor_model_pipeline_parallel size ({})",
                    world_size, model));
  }
  return {.tp = tp, .ep = ep, .dp = static_cast<int>(world_size / model), .pp = pp, .cp = 1};
}

}  // namespace

std::string to_string(const ModelParallelOptions& options) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, const auto& value, const auto& usual) {
    if (!(value == usual)) parts.push_back(fmt::format("{}={}", name, value));
  };
  add("tensor_model_parallel_size", options.tensor_model_parallel_size, 1);
  add("pipeline_model_parallel_size", options.pipeline_model_parallel_size, 1);
  add("virtual_pipeline_model_parallel_size",
      options.virtual_pipeline_model_parallel_size.value_or(0), 0);
  add("context_parallel_size", options.context_parallel_size, 1);
  add("expert_model_parallel_size", options.expert_model_parallel_size, 1);
  add("expert_tensor_parallel_size", options.expert_tensor_parallel_size.value_or(0), 0);
  add("distributed_timeout_minutes", options.distributed_timeout_minutes, 30);
  add("order", options.order, kDefaultOrder);
  add("create_gloo_process_groups", options.create_gloo_process_groups, true);
  return fmt::format("{}", fmt::join(parts, ", "));
}

const GroupKindTraits& traits_of(GroupKind kind) {
  return kTraits[static_cast<std::size_t>(kind)];
}

ParallelLayout::ParallelLayout(ModelParallelOptions options, int world_size)
    : options_(std::move(options)),
      dense_(dense_sizes(options_, world_size), options_.order),
      experts_(expert_sizes(options_, world_size), options_.order) {
  if (options_.virtual_pipeline_model_parallel_size && options_.pipeline_model_parallel_size <= 1) {
    wrong_sizes("pipeline-model-parallel size should be greater than 1 with interleaved schedule");
  }
  if (dense_.get_ranks("pp") != experts_.get_ranks("pp")) {
    wrong_sizes(
        fmt::format("Pipeline parallel groups are expected to be the same for attention and MoE, "
                    "but with order {} and data parallel sizes {} and {} they differ; put pp last",
                    options_.order, groups(GroupKind::data).front().size(),
                    groups(GroupKind::expert_data).front().size()));
  }
}

std::vector<std::vector<int>> ParallelLayout::groups(GroupKind kind) const {
  std::vector<std::vector<int>> all = generator(kind).get_ranks(traits_of(kind).token);
  if (!is_of_embeddings(kind)) return all;
  for (std::vector<int>& stages : all) stages = with_embeddings(kind, stages);
  return all;
}

std::vector<int> ParallelLayout::group_of(GroupKind kind, int rank) const {
  std::vector<int> ranks = generator(kind).group_of(traits_of(kind).token, rank);
  if (is_of_embeddings(kind)) ranks = with_embeddings(kind, ranks);
  if (std::ranges::find(ranks, rank) == ranks.end()) ranks.clear();
  return ranks;
}

}  // namespace kernbench::tp
