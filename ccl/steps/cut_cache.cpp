#include "ccl/steps/cut_cache.h"

#include <algorithm>
#include <set>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

namespace {

// Small messages cost more than their bytes, so lanes do not take part in every chunk if a message
// can carry as much as several lanes have of it.  If all lanes have much of it, links are busy, and
// many messages keep them so.  The result is a multiple of `colours`.
int class_count(const Cut& cut, const Grain& grain, int colours) {
  const auto lanes = static_cast<int>(cut.fragments.size());
  std::int64_t largest = 1;
  for (const auto& [lane, fragments] : cut.fragments) {
    if (fragments.size() > 1) return colours;
    largest = std::max(largest, fragments.front().count());
  }
  if (largest * lanes > 2 * grain.most_dealt) return colours;
  int classes = lanes;
  while (classes > colours && (lanes % classes != 0 || largest * classes > grain.most_dealt)) {
    classes -= colours;
  }
  return std::max(classes, colours);
}

bool has_lanes_for_colours(const std::vector<Fragment>& fragments, const Grain& grain) {
  std::set<Lane> lanes;
  for (const Fragment& fragment : fragments) lanes.insert(fragment.lane);
  return grain.colours > 1 && static_cast<int>(lanes.size()) % grain.colours == 0;
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
  const std::vector<Fragment> wholes = cut_in_fragments(layouts, count, dtype, grain.on_one_cube);
  const bool by_colour = has_lanes_for_colours(wholes, grain);
  Grain finest = grain;
  if (by_colour) finest.most = grain.most_of_colour;
  for (const Fragment& fragment : wholes) {
    append_in_parts(cut->fragments[fragment.lane], fragment, finest);
  }
  cut->classes = class_count(*cut, grain, by_colour ? grain.colours : 1);
  known = cut;
  return known;
}

}  // namespace kernbench::ccl
