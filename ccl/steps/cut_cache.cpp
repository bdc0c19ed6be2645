#include "ccl/steps/cut_cache.h"

#include <algorithm>
#include <set>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

namespace {

// How many channels the lanes of a cut form: a multiple of `least`, the plan's.
//
// Each message costs a fixed time, so small chunks go whole through one lane each: with as many
// channels as lanes, a lane has a message for each of its own chunks and none for the others.  A
// lane may take as many chunks more as its messages stay below CutSizes::most_of_small.
int channel_count(const Cut& cut, const CutSizes& sizes, int least) {
  const auto lanes = static_cast<int>(cut.slices.size());
  std::int64_t largest = 1;
  for (const auto& [lane, slices] : cut.slices) {
    // A lane with several slices has more than one message for a chunk already, so its chunks are
    // large enough.
    if (slices.size() > 1) return least;
    largest = std::max(largest, slices.front().count());
  }
  const std::int64_t most = sizes.most_of_small / largest;
  if (most >= lanes) return std::max(lanes / least * least, least);
  int channels = least;
  for (int count = least; count <= most; count += least) {
    // A channel of whole chunks, or one that lies in a chunk, has the fewest messages.
    if (count % sizes.chunk_count == 0 || sizes.chunk_count % count == 0) channels = count;
  }
  return channels;
}

// The plan's channel that a cube's lanes have.  Cubes take turns there and back, as in
// 0 1 2 2 1 0 0 1 2, so that each channel has cubes near the links and far from them.
int channel_of_cube(int cube, int channels) {
  const int place = cube % (2 * channels);
  return std::min(place, 2 * channels - 1 - place);
}

// The channel of each lane.  Lanes of a channel lie on different cubes where they can, since the
// PEs of a cube share its memory.
std::vector<int> channels_of_lanes(const Cut& cut, int channels_of_plan) {
  struct Place {
    Lane lane;
    std::size_t number = 0;
    int channel = 0;  // of the plan
  };
  std::vector<Place> places;
  for (const auto& [lane, slices] : cut.slices) places.push_back({lane, places.size()});
  const auto count = static_cast<int>(places.size());
  std::ranges::stable_sort(places, {}, [&](const Place& place) {
    return channel_of_cube(place.lane.cube, channels_of_plan);
  });
  for (int i = 0; i < count; ++i) {
    places[static_cast<std::size_t>(i)].channel = i * channels_of_plan / count;
  }
  std::ranges::sort(places, {}, [](const Place& place) {
    return std::tuple(place.channel, place.lane.pe, place.lane.cube);
  });
  std::vector<int> channels(places.size());
  for (int i = 0; i < count; ++i) {
    channels[places[static_cast<std::size_t>(i)].number] = i * cut.channels / count;
  }
  return channels;
}

// True if each of the plan's channels gets equally many lanes, or so many that one more is little;
// where channels share ports, if each gets a lane.
bool has_lanes_for_channels(const std::vector<Slice>& slices, const CutSizes& sizes) {
  constexpr int kMany = 20;  // of a channel: one more is a twentieth
  std::set<Lane> lanes;
  for (const Slice& slice : slices) lanes.insert(slice.lane);
  const auto count = static_cast<int>(lanes.size());
  return sizes.channels > 1 &&
         (sizes.share_ports ? count >= sizes.channels
                            : count % sizes.channels == 0 || count >= kMany * sizes.channels);
}

// Cuts a row between units of as many elements as there are chunks, so that no slice has a rest.
void append_equal_slices(std::vector<Slice>& slices, const Slice& whole, const CutSizes& sizes) {
  const std::int64_t units = whole.columns / sizes.chunk_count;
  const std::int64_t most = std::max<std::int64_t>(sizes.most / sizes.chunk_count, 1);
  const std::int64_t count = sim::ceil_divide(units, most);
  const auto unit = [&](std::int64_t slice) { return static_cast<int>(units * slice / count); };
  for (std::int64_t i = 0; i < count; ++i) {
    slices.push_back(slice_of_chunks(whole, unit(i), unit(i + 1), static_cast<int>(units)));
  }
}

// Equal chunks that leave out more than a fiftieth would not take the time of all.
bool leaves_out_much(const Cut& cut, std::int64_t count) {
  std::int64_t moved = 0;
  for (const auto& [lane, slices] : cut.slices) {
    for (const Slice& slice : slices) moved += slice.count();
  }
  return (count - moved) * 50 > count;
}

}  // namespace

void append_slices(std::vector<Slice>& slices, const Slice& whole, const CutSizes& sizes) {
  const bool is_scattered = sizes.is_joined && whole.rows > 1 && whole.rows < sizes.chunk_count;
  if (whole.count() <= sizes.most && !is_scattered) {
    slices.push_back(sizes.has_equal_chunks ? equal_chunks_of(whole, sizes.chunk_count) : whole);
    return;
  }
  if (sizes.has_equal_chunks && whole.rows == 1 && whole.columns >= 2 * sizes.chunk_count) {
    return append_equal_slices(slices, equal_chunks_of(whole, sizes.chunk_count), sizes);
  }
  // A slice has as many whole rows as fit; rows that are too long are split one by one.
  const std::int64_t together = std::max<std::int64_t>(sizes.most / whole.columns, 1);
  std::int64_t count = whole.rows > 1 ? sim::ceil_divide(whole.rows, together)
                                      : sim::ceil_divide(whole.columns, sizes.most);
  if (is_scattered) count = whole.rows;
  for (int i = 0; i < count; ++i) {
    append_slices(slices, slice_of_chunks(whole, i, i + 1, static_cast<int>(count)), sizes);
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
                                         std::int64_t count, DType dtype, const CutSizes& sizes) {
  CutKey key{{}, count, dtype, sizes};
  key.blocks.reserve(layouts.size());
  for (const BlockLayout& layout : layouts) {
    key.blocks.emplace_back(layout.tensor.get(), layout.first);
  }
  std::shared_ptr<const Cut>& known = cuts_[key];
  if (known != nullptr) return known;

  auto cut = std::make_shared<Cut>();
  cut->layouts = layouts;
  const std::vector<Slice> wholes = cut_into_slices(layouts, count, dtype, sizes.on_one_cube);
  const bool are_apart = has_lanes_for_channels(wholes, sizes);
  // A lane with one channel carries a share of the chunks alone, so each of its messages may be
  // larger by the number of channels.
  CutSizes finest = sizes;
  if (are_apart) finest.most = sizes.most_of_channel;
  for (const Slice& slice : wholes) append_slices(cut->slices[slice.lane], slice, finest);
  if (sizes.has_equal_chunks && leaves_out_much(*cut, count)) {
    CutSizes usual = sizes;
    usual.has_equal_chunks = false;
    const std::shared_ptr<const Cut> of_usual = this->cut(layouts, count, dtype, usual);
    return cuts_[key] = of_usual;
  }
  const int channels = are_apart ? sizes.channels : 1;
  cut->channels = sizes.has_equal_chunks ? channels : channel_count(*cut, sizes, channels);
  cut->channel_of = channels_of_lanes(*cut, channels);
  known = cut;
  return known;
}

}  // namespace kernbench::ccl
