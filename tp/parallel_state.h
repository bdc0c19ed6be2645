// megatron.core.parallel_state: which groups of ranks share a layer, a stage, a batch.
//
// The state is kept per context and per rank (ADR-0132).  initialize_model_parallel() is called
// once before spawn(), for all ranks, or once by every rank; the state set by a rank ends with its
// spawn().
//
// All functions throw CollectiveError KB-T002 if the caller has not been initialized, in Megatron's
// words ("tensor model parallel group is not initialized"), and KB-R012 inside a kernel.  Code
// outside of ranks (a single driver) gets the answers of rank 0.

#pragma once

#include <optional>
#include <vector>

#include "runtime/torch/runtime_context.h"
#include "tp/parallel_layout.h"

namespace kernbench::tp {

class GlobalMemoryBuffer;

using distributed::ProcessGroup;
using OptionalGroup = std::optional<ProcessGroup>;

// Makes the groups, collectively over the world: Megatron's initialize_model_parallel().
// torch.distributed must be initialized (CollectiveError KB-R002).  It sends nothing and takes no
// simulated time.  Throws CollectiveError KB-T002 "data parallel group is already initialized"
//                        KB-T003 sizes or an order that do not fit the world, in Megatron's words
//        CollectiveMismatchError KB-C001 if another rank called it with other arguments
void initialize_model_parallel(RuntimeContext& torch, const ModelParallelOptions& options = {});

// Drops the caller's groups and overrides; if called outside of ranks, the groups of all ranks.
void destroy_model_parallel(RuntimeContext& torch);

// Whether the caller has a data parallel group.
bool is_initialized(RuntimeContext& torch);
// Whether the caller has tensor, pipeline and data parallel groups.
bool model_parallel_is_initialized(RuntimeContext& torch);

// Groups, their sizes and the caller's ranks in them.

ProcessGroup get_model_parallel_group(RuntimeContext& torch);  // tensor and pipeline
ProcessGroup get_tensor_model_parallel_group(RuntimeContext& torch);
// `group`, or get_tensor_model_parallel_group() if it is empty.
ProcessGroup group_or_tensor_model_parallel(RuntimeContext& torch, const OptionalGroup& group);
ProcessGroup get_pipeline_model_parallel_group(RuntimeContext& torch);
ProcessGroup get_data_parallel_group(RuntimeContext& torch, bool with_context_parallel = false);
ProcessGroup get_context_parallel_group(RuntimeContext& torch);
ProcessGroup get_tensor_and_data_parallel_group(RuntimeContext& torch,
                                                bool with_context_parallel = false);
ProcessGroup get_tensor_and_context_parallel_group(RuntimeContext& torch);
ProcessGroup get_expert_model_parallel_group(RuntimeContext& torch);
ProcessGroup get_expert_tensor_parallel_group(RuntimeContext& torch);
ProcessGroup get_expert_tensor_and_model_parallel_group(RuntimeContext& torch);
ProcessGroup get_expert_tensor_model_pipeline_parallel_group(RuntimeContext& torch);
ProcessGroup get_expert_data_parallel_group(RuntimeContext& torch);
// These two exist on the first and last stages only: "... is not initialized" elsewhere.
ProcessGroup get_embedding_group(RuntimeContext& torch);
ProcessGroup get_position_embedding_group(RuntimeContext& torch);

int get_tensor_model_parallel_world_size(RuntimeContext& torch);
int get_tensor_model_parallel_rank(RuntimeContext& torch);
int get_pipeline_model_parallel_world_size(RuntimeContext& torch);
int get_pipeline_model_parallel_rank(RuntimeContext& torch);
int get_data_parallel_world_size(RuntimeContext& torch, bool with_context_parallel = false);
int get_data_parallel_rank(RuntimeContext& torch, bool with_context_parallel = false);
int get_context_parallel_world_size(RuntimeContext& torch);
int get_context_parallel_rank(RuntimeContext& torch);
int get_tensor_and_context_parallel_world_size(RuntimeContext& torch);
int get_tensor_and_context_parallel_rank(RuntimeContext& torch);
int get_expert_model_parallel_world_size(RuntimeContext& torch);
int get_expert_model_parallel_rank(RuntimeContext& torch);
int get_expert_tensor_parallel_world_size(RuntimeContext& torch);
int get_expert_tensor_parallel_rank(RuntimeContext& torch);
int get_expert_tensor_and_model_parallel_world_size(RuntimeContext& torch);
int get_expert_tensor_and_model_parallel_rank(RuntimeContext& torch);
int get_expert_data_parallel_world_size(RuntimeContext& torch);
int get_expert_data_parallel_rank(RuntimeContext& torch);

// Global ranks.

std::vector<int> get_context_parallel_global_ranks(RuntimeContext& torch);
// The first global rank of the caller's group.
int get_tensor_model_parallel_src_rank(RuntimeContext& torch);
int get_model_parallel_src_rank(RuntimeContext& torch);
int get_data_parallel_src_rank(RuntimeContext& torch, bool with_context_parallel = false);
// Global ranks of the caller's pipeline; next and prev wrap around.
int get_pipeline_model_parallel_first_rank(RuntimeContext& torch);
int get_pipeline_model_parallel_last_rank(RuntimeContext& torch);
int get_pipeline_model_parallel_next_rank(RuntimeContext& torch);
int get_pipeline_model_parallel_prev_rank(RuntimeContext& torch);

// True on the first, or last, stage.  With ignore_virtual = false (interleaved schedule) the
// virtual stage must be the first, or last, too; `vp_stage` is that stage, by default the one that
// was set.

bool is_pipeline_first_stage(RuntimeContext& torch, bool ignore_virtual = true,
                             std::optional<int> vp_stage = std::nullopt);
bool is_pipeline_last_stage(RuntimeContext& torch, bool ignore_virtual = true,
                            std::optional<int> vp_stage = std::nullopt);
bool is_rank_in_embedding_group(RuntimeContext& torch, bool ignore_virtual = true,
                                std::optional<int> vp_stage = std::nullopt);
bool is_rank_in_position_embedding_group(RuntimeContext& torch);
// nullopt without an interleaved schedule; the rank is 0 until it is set.
std::optional<int> get_virtual_pipeline_model_parallel_world_size(RuntimeContext& torch);
std::optional<int> get_virtual_pipeline_model_parallel_rank(RuntimeContext& torch);

// Overrides what the caller's getters return from now on, initialized or not; nullopt: the actual
// value.

void set_tensor_model_parallel_world_size(RuntimeContext& torch, std::optional<int> world_size);
void set_tensor_model_parallel_rank(RuntimeContext& torch, std::optional<int> rank);
void set_pipeline_model_parallel_world_size(RuntimeContext& torch, std::optional<int> world_size);
void set_pipeline_model_parallel_rank(RuntimeContext& torch, std::optional<int> rank);
void set_data_parallel_rank(RuntimeContext& torch, std::optional<int> rank);
void set_expert_model_parallel_world_size(RuntimeContext& torch, std::optional<int> world_size);
void set_expert_model_parallel_rank(RuntimeContext& torch, std::optional<int> rank);
void set_expert_tensor_parallel_world_size(RuntimeContext& torch, std::optional<int> world_size);
void set_expert_tensor_parallel_rank(RuntimeContext& torch, std::optional<int> rank);
void set_virtual_pipeline_model_parallel_world_size(RuntimeContext& torch,
                                                    std::optional<int> world_size);
void set_virtual_pipeline_model_parallel_rank(RuntimeContext& torch, std::optional<int> rank);

// The caller's memory for short-lived tensors; it is destroyed with the groups.
GlobalMemoryBuffer& get_global_memory_buffer(RuntimeContext& torch);

using distributed::Location;

// A ProcessGroup argument converts to a CallGroup, with the line of the call.
struct CallGroup {
  // NOLINTNEXTLINE(google-explicit-constructor)
  CallGroup(const ProcessGroup& given, Location at = Location::current())
      : group(given), location(at) {}

  ProcessGroup group;
  Location location;
};

// A CallGroup that may be left out, which means the caller's tensor model parallel group.  The
// default of such an argument is the line alone.
struct OptionalCallGroup {
  // NOLINTBEGIN(google-explicit-constructor)
  OptionalCallGroup(Location at) : location(at) {}
  OptionalCallGroup(std::nullopt_t, Location at = Location::current()) : location(at) {}
  OptionalCallGroup(const ProcessGroup& given, Location at = Location::current())
      : group(given), location(at) {}
  OptionalCallGroup(const OptionalGroup& given, Location at = Location::current())
      : group(given), location(at) {}
  // NOLINTEND(google-explicit-constructor)

  CallGroup get(RuntimeContext& torch) const {
    return {group_or_tensor_model_parallel(torch, group), location};
  }

  OptionalGroup group = std::nullopt;
  Location location;
};

}  // namespace kernbench::tp
