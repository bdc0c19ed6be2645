#include "ccl/collectives/cut_cache.h"

#include <algorithm>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

void append_in_parts(std::vector<Fragment>& parts, const Fragment& whole, std::int64_t most) {
  if (whole.count() <= most) {
    parts.push_back(whole);
    return;
  }
  // Parts have as many whole rows as fit; rows that are too long are split one by one.
  const std::int64_t together = std::max<std::int64_t>(most / whole.columns, 1);
  const std::int64_t count = whole.rows > 1 ? sim::ceil_divide(whole.rows, together)
                                            : sim::ceil_divide(whole.columns, most);
  for (int i = 0; i < count; ++i) {
    append_in_parts(parts, part_of(whole, i, static_cast<int>(count)), most);
  }
}

std::shared_ptr<const TensorLayout> CutCache::layout_of(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const DPPolicy& dp = tensor.dp();
  std::shared_ptr<const TensorLayout>& layout =
      layouts_[{{shape.begin(), shape.end()}, dp.cube, dp.pe, dp.num_cubes, dp.num_pes}];
  if (layout == nullptr) {
    layout = std::make_shared<const TensorLayout>(ccl::layout_of(shape, dp, topology_));
  }
  return layout;
}

std::shared_ptr<const Cut> CutCache::cut(const std::vector<BlockLayout>& layouts,
                                         std::int64_t count, DType dtype, int parts) {
  CutKey key{{}, count, dtype, parts};
  key.blocks.reserve(layouts.size());
  for (const BlockLayout& layout : layouts) {
    key.blocks.emplace_back(layout.tensor.get(), layout.first);
  }
  std::shared_ptr<const Cut>& known = cuts_[key];
  if (known != nullptr) return known;

  std::size_t summands = 1;
  for (const BlockLayout& layout : layouts) {
    summands = std::max(summands, layout.tensor->most_summands());
  }
  const std::int64_t most = parts * most_step_elements(topology_.pe.tcm.capacity, dtype, summands);
  auto cut = std::make_shared<Cut>();
  cut->layouts = layouts;
  for (const Fragment& fragment : cut_in_fragments(layouts, count, dtype)) {
    append_in_parts(cut->fragments[fragment.lane], fragment, most);
  }
  known = cut;
  return known;
}

}  // namespace kernbench::ccl
