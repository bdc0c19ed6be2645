#include "ccl/steps/cut_cache.h"

#include <algorithm>
#include <set>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

namespace {

// Small messages cost more than their bytes, so of a chunk no more lanes have a share than messages
// of grain.most_dealt elements are needed.  A share that lies in one unit, or is of whole units,
// has the fewest messages.  The result is a multiple of `colours`.
int class_count(const Cut& cut, const Grain& grain, int colours) {
  const auto lanes = static_cast<int>(cut.fragments.size());
  std::int64_t largest = 1;
  for (const auto& [lane, fragments] : cut.fragments) {
    // A lane with several fragments has more than one message per chunk already, so its chunks are
    // large enough.
    if (fragments.size() > 1) return colours;
    largest = std::max(largest, fragments.front().count());
  }
  const std::int64_t most = grain.most_dealt / largest;
  if (most >= lanes) return std::max(lanes, colours);
  int classes = colours;
  for (int one = colours; one <= most; one += colours) {
    if (one % grain.units == 0 || grain.units % one == 0) classes = one;
  }
  return classes;
}

// The colour of a cube if cubes are dealt to and fro, as in 0 1 2 2 1 0 0: each has cubes near the
// links and far from them.
int colour_of_cube(int cube, int colours) {
  const int place = cube % (2 * colours);
  return std::min(place, 2 * colours - 1 - place);
}

// Deals lanes to classes.  Cubes are dealt to colours; lanes of a class lie on different cubes
// where they can, since the PEs of a cube share its memory.
std::vector<int> classes_of_lanes(const Cut& cut, int colours) {
  struct Dealt {
    Lane lane;
    std::size_t number = 0;
    int colour = 0;
  };
  std::vector<Dealt> lanes;
  for (const auto& [lane, fragments] : cut.fragments) lanes.push_back({lane, lanes.size()});
  const auto count = static_cast<int>(lanes.size());
  std::ranges::stable_sort(
      lanes, {}, [&](const Dealt& one) { return colour_of_cube(one.lane.cube, colours); });
  for (int i = 0; i < count; ++i) lanes[static_cast<std::size_t>(i)].colour = i * colours / count;
  std::ranges::sort(lanes, {}, [](const Dealt& one) {
    return std::tuple(one.colour, one.lane.pe, one.lane.cube);
  });
  std::vector<int> classes(lanes.size());
  for (int i = 0; i < count; ++i) {
    classes[lanes[static_cast<std::size_t>(i)].number] = i * cut.classes / count;
  }
  return classes;
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
    append_in_parts(parts, make_part(whole, i, i + 1, static_cast<int>(count)), grain);
  }
}

std::shared_ptr<const TensorLayout> CutCache::find_layout(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const DPPolicy& dp = tensor.dp();
  std::shared_ptr<const TensorLayout>& layout =
      layouts_[{{shape.begin(), shape.end()}, dp.cube, dp.pe, dp.num_cubes, dp.num_pes}];
  // Programs call the same collective on tensors of the same form again and again, and the layout
  // costs more than the look-up.
  if (layout == nullptr) {
    layout = std::make_shared<const TensorLayout>(ccl::make_layout(shape, dp, topology_));
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
  // Lanes of one colour carry only their colour's chunks, so each message may be larger by the
  // number of colours.
  Grain finest = grain;
  if (by_colour) finest.most = grain.most_of_colour;
  for (const Fragment& fragment : wholes) {
    append_in_parts(cut->fragments[fragment.lane], fragment, finest);
  }
  const int colours = by_colour ? grain.colours : 1;
  cut->classes = class_count(*cut, grain, colours);
  cut->class_of = classes_of_lanes(*cut, colours);
  known = cut;
  return known;
}

}  // namespace kernbench::ccl
