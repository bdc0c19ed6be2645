// What is known of tensors and blocks: computed once for each shape and placement.

#pragma once

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "ccl/collectives/plan.h"

namespace kernbench::ccl {

class CutCache {
 public:
  explicit CutCache(const Topology& topology) : topology_(topology) {}

  BlockLayout layout_of(const distributed::Block& block);

  // Cuts blocks of `count` elements in fragments of at most as many elements as `parts` steps have.
  std::shared_ptr<const Cut> cut(const std::vector<BlockLayout>& layouts, std::int64_t count,
                                 DType dtype, int parts);

 private:
  using LayoutKey = std::tuple<std::vector<std::int64_t>, Shard, Shard, int, int>;
  using CutKey = std::tuple<std::vector<std::pair<const TensorLayout*, std::int64_t>>, std::int64_t,
                            DType, int>;

  static constexpr std::size_t kMostCuts = 4096;

  const Topology& topology_;
  std::map<LayoutKey, std::shared_ptr<const TensorLayout>> layouts_;
  // Asked, never listed: pointers name layouts.
  std::map<CutKey, std::shared_ptr<const Cut>> cuts_;
};

// A fragment in parts of at most `most` elements.
void append_in_parts(std::vector<Fragment>& parts, const Fragment& whole, std::int64_t most);

}  // namespace kernbench::ccl
