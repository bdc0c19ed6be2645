#include "ccl/steps/cut_cache.h"

#include <algorithm>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

namespace {

// True if a message can carry as much of all fragments together as of one.  Then lanes need not
// send each other as many messages as there are chunks, and small ones cost more than their bytes.
bool can_be_dealt(const Cut& cut, const Grain& grain) {
  const auto lanes = static_cast<std::int64_t>(cut.fragments.size());
  return lanes > 1 && std::ranges::all_of(cut.fragments, [&](const auto& of_lane) {
           const std::vector<Fragment>& fragments = of_lane.second;
           return fragments.size() == 1 && fragments.front().count() * lanes <= grain.most;
         });
}

}  // namespace

void append_in_parts(std::vector<Fragment>& parts, const Fragment& whole, const Grain& grain) {
  const bool is_scattered = grain.is_joined && whole.rows > 1 && whole.rows < grain.units;
  if (whole.count() <= grain.most && !is_scattered) {
    parts.push_back(whole);
    return;
  }
  // Parts have as many whole rows as fit; rows that are too long are split one by one.
  const std::int64_t together = std::max<std::int64_t>(grain.most / whole.columns, 1);
  std::int64_t count = whole.rows > 1 ? sim::ceil_divide(whole.rows, together)
                                      : sim::ceil_divide(whole.columns, grain.most);
  if (is_scattered) count = whole.rows;
  for (int i = 0; i < count; ++i) {
    append_in_parts(parts, part_of(whole, i, i + 1, static_cast<int>(count)), grain);
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
                                         std::int64_t count, DType dtype, const Grain& grain) {
  CutKey key{{}, count, dtype, grain};
  key.blocks.reserve(layouts.size());
  for (const BlockLayout& layout : layouts) {
    key.blocks.emplace_back(layout.tensor.get(), layout.first);
  }
  std::shared_ptr<const Cut>& known = cuts_[key];
  if (known != nullptr) return known;

  auto cut = std::make_shared<Cut>();
  cut->layouts = layouts;
  for (const Fragment& fragment : cut_in_fragments(layouts, count, dtype, grain.on_one_cube)) {
    append_in_parts(cut->fragments[fragment.lane], fragment, grain);
  }
  cut->is_dealt = can_be_dealt(*cut, grain);
  known = cut;
  return known;
}

}  // namespace kernbench::ccl
