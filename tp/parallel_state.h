// megatron.core.parallel_state: which groups of ranks share a layer, a stage, a batch.
//
// The state is kept per context and per rank (ADR-0133).  initialize_model_parallel() is called
// once before spawn(), for all ranks, or once by every rank; the state set by a rank ends with its
// spawn().
//
// All functions throw CollectiveError KB-T002 if the caller has not been initialized, in Megatron's
// words ("tensor model parallel group is not initialized"), and KB-R012 inside a kernel.  Code
// outside of ranks (a single driver) gets the answers of rank 0.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/torch/runtime_context.h"

namespace kernbench::tp {

// The groups into which Megatron divides the ranks (megatron.core.parallel_state).

// Megatron's default: the tensor parallel rank varies fastest, the pipeline stage slowest.
inline constexpr std::string_view kDefaultOrder = "tp-cp-ep-dp-pp";

// The number of ranks along tensor, expert, data, pipeline and context parallelism.
struct ParallelSizes {
  int tp = 1;
  int ep = 1;
  int dp = 1;
  int pp = 1;
  int cp = 1;
};

// A grid of ranks.  The leftmost dimension of `order` varies fastest:
//   rank = tp + size(tp) * (cp + size(cp) * (ep + ...))   for "tp-cp-ep-dp-pp"
class RankGenerator {
 public:
  // `order` names dimensions, in upper or lower case; a dimension that it leaves out must have size
  // 1.  Throws CollectiveError KB-T003 if it has not, for a size below 1, and for a name that is
  // unknown or repeated.
  explicit RankGenerator(const ParallelSizes& sizes, std::string_view order = kDefaultOrder);

  int world_size() const { return world_size_; }

  // All groups of ranks along the dimensions of `token`, e.g. "tp" or "dp-cp".  Groups, and the
  // ranks of each, are in the order of `order`, however the token spells it; ranks ascend.
  // Throws CollectiveError KB-T003 if the token names no dimension.
  std::vector<std::vector<int>> get_ranks(std::string_view token) const;

  // The group of get_ranks(token) that `rank` is in, without making the others.
  // REQUIRES: 0 <= rank < world_size()
  std::vector<int> group_of(std::string_view token, int rank) const;

 private:
  struct Dimension {
    std::string name;
    int size = 1;
    int stride = 1;
  };

  std::vector<Dimension> along(std::string_view token, bool wanted) const;
  static std::vector<int> offsets(std::span<const Dimension> dimensions);

  std::vector<Dimension> dimensions_;  // the fastest first
  int world_size_ = 1;
};

// The arguments of initialize_model_parallel(), with Megatron's names.  The data parallel size
// follows from them and the world size.  Those marked (*) have no meaning here: another value than
// the default is refused (KB-T003), with what to do instead.
struct ModelParallelOptions {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  std::optional<int> virtual_pipeline_model_parallel_size = std::nullopt;
  std::string pipeline_model_parallel_comm_backend = {};  // (*)
  bool use_sharp = false;                                 // (*)
  int context_parallel_size = 1;
  std::vector<int> hierarchical_context_parallel_sizes = {};  // (*)
  bool hybrid_context_parallel = false;                       // (*)
  int expert_model_parallel_size = 1;
  int num_distributed_optimizer_instances = 1;                    // (*)
  std::optional<int> expert_tensor_parallel_size = std::nullopt;  // none: as tensor parallel
  std::string nccl_communicator_config_path = {};                 // (*)
  int distributed_timeout_minutes = 30;  // positive, and not needed: a deadlock is found at once
  std::string order = std::string(kDefaultOrder);
  bool create_gloo_process_groups = true;                     // no group is Gloo's in either case
  std::vector<std::string> high_priority_stream_groups = {};  // (*)
  std::string sharp_enabled_group = {};                       // (*)
  int rank_offset = 0;                                        // (*)

  friend bool operator==(const ModelParallelOptions&, const ModelParallelOptions&) = default;
};

// "tensor_model_parallel_size=2, ..., order=tp-cp-ep-dp-pp"; arguments with default values are left
// out.
std::string to_string(const ModelParallelOptions& options);

// The kinds stand in the order in which their groups are made.
enum class GroupKind : std::uint8_t {
  data_with_context,
  data,
  context,
  model,  // tensor and pipeline
  tensor,
  pipeline,
  embedding,           // the first and last stage of a pipeline
  position_embedding,  // the first
  tensor_data_context,
  tensor_data,
  tensor_context,
  expert_model,
  expert_tensor,
  expert_tensor_and_model,
  expert_tensor_model_pipeline,
  expert_data,
};
inline constexpr std::size_t kGroupKindCount = 16;

struct GroupKindTraits {
  std::string_view description;  // "TENSOR_MODEL_PARALLEL_GROUP"
  std::string_view token;        // its dimensions; embeddings: of the groups they are taken from
  bool is_of_experts;
  std::string_view name;  // in errors: "tensor model parallel group"
};

const GroupKindTraits& traits_of(GroupKind kind);

// All groups of a world.
class ParallelLayout {
 public:
  // Throws CollectiveError KB-T003, in Megatron's words, if the sizes do not fit.
  ParallelLayout(ModelParallelOptions options, int world_size);

  const ModelParallelOptions& options() const { return options_; }

  std::vector<std::vector<int>> groups(GroupKind kind) const;
  // The ranks of the group that `rank` is in; empty if it is in none.
  std::vector<int> group_of(GroupKind kind, int rank) const;

 private:
  const RankGenerator& generator(GroupKind kind) const {
    return traits_of(kind).is_of_experts ? experts_ : dense_;
  }

  ModelParallelOptions options_;
  RankGenerator dense_;
  RankGenerator experts_;
};

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

// True if the caller has a data parallel group.
bool is_initialized(RuntimeContext& torch);
// True if the caller has tensor, pipeline and data parallel groups.
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
// These return nullopt without an interleaved schedule; the rank is 0 until it is set.
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
