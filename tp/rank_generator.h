// The numbering of ranks along the dimensions of parallelism (megatron.core.parallel_state.
// RankGenerator).

#pragma once

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

}  // namespace kernbench::tp
