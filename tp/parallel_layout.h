// The groups into which Megatron divides the ranks (megatron.core.parallel_state).

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::tp {

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
// follows from them and the world size.
struct ModelParallelOptions {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  std::optional<int> virtual_pipeline_model_parallel_size = std::nullopt;
  int context_parallel_size = 1;
  int expert_model_parallel_size = 1;
  std::optional<int> expert_tensor_parallel_size = std::nullopt;  // none: as tensor parallel
  std::string order = std::string(kDefaultOrder);

  friend bool operator==(const ModelParallelOptions&, const ModelParallelOptions&) = default;
};

// "tensor_model_parallel_size=2, ..., order=tp-cp-ep-dp-pp"; arguments with default values are left
// out.
std::string to_string(const ModelParallelOptions& options);

// In the order in which the groups are made.
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

}  // namespace kernbench::tp
