// Caches layouts of tensors and cuts of blocks, computed once per shape and placement for all
// groups.

#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ccl/steps/cut_sizes.h"
#include "ccl/steps/slices.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::ccl {

// Keeps the entries that were used last, at least kLeast and at most twice as many.
template <class Key, class Value, std::size_t kLeast>
class RecentMap {
 public:
  // Returns the value of `key`; a default one if it is new.  The reference is valid until the next
  // call.
  Value& operator[](const Key& key) {
    const auto found = young_.find(key);
    if (found != young_.end()) return found->second;
    if (young_.size() >= kLeast) old_ = std::exchange(young_, {});
    Value& value = young_[key];
    if (const auto known = old_.find(key); known != old_.end()) value = known->second;
    return value;
  }
  std::size_t size() const { return young_.size() + old_.size(); }

 private:
  std::map<Key, Value> young_;  // used since old_ was made; looked up, never listed
  std::map<Key, Value> old_;
};

// Blocks of the same elements, cut once for all members that give or take them.
struct Cut {
  std::vector<BlockLayout> layouts;           // the different layouts of the blocks
  std::map<Lane, std::vector<Slice>> slices;  // `at` is by layout
  // The block's chunks are divided among this many channels in turn: a lane has the chunks of its
  // channel alone.  1: every lane has its share of every chunk.
  int channels = 1;
  std::vector<int> channel_of;  // by lane, in the order of `slices`
};

class CutCache {
 public:
  explicit CutCache(const Topology& topology) : topology_(topology) {}

  std::shared_ptr<const TensorLayout> find_layout(const Tensor& tensor);

  // Cuts blocks of `count` elements.
  std::shared_ptr<const Cut> cut(const std::vector<BlockLayout>& layouts, std::int64_t count,
                                 DType dtype, const CutSizes& sizes);

  // The number of layouts and cuts in the cache.
  std::size_t size() const { return layouts_.size() + cuts_.size(); }

 private:
  using LayoutKey = std::tuple<std::vector<std::int64_t>, Shard, Shard, int, int>;

  // Layouts are identified by address: a cut keeps its own alive, so no other one gets the
  // address.
  struct CutKey {
    std::vector<std::pair<const TensorLayout*, std::int64_t>> blocks;
    std::int64_t count = 0;
    DType dtype = DType::f32;
    CutSizes sizes;
    friend auto operator<=>(const CutKey&, const CutKey&) = default;
  };

  const Topology& topology_;
  RecentMap<LayoutKey, std::shared_ptr<const TensorLayout>, 1024> layouts_;
  RecentMap<CutKey, std::shared_ptr<const Cut>, 16384> cuts_;
};

// Returns where a chunk of the block begins among the `count` chunks that a slice of a channel is
// cut into.  Of chunks that other channels have, nothing is left.
constexpr int chunk_in_channel(int chunk, int channel, int channels, int count) {
  return std::clamp(chunk * channels - channel * count, 0, count);
}

// Appends a slice, cut into several if it has more than `sizes.most` elements.
void append_slices(std::vector<Slice>& slices, const Slice& whole, const CutSizes& sizes);

}  // namespace kernbench::ccl
