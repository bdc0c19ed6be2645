// What is known of tensors and blocks: computed once for each shape and placement, for all groups.

#pragma once

#include <compare>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ccl/collectives/plan.h"

namespace kernbench::ccl {

// Of entries that were asked for lately, at least kLeast and at most twice as many; older ones are
// forgotten.
template <class Key, class Value, std::size_t kLeast>
class RecentMap {
 public:
  // The value of `key`; a default one if it is new.  Valid until the next call.
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
  std::map<Key, Value> young_;  // asked for since old_ was; asked, never listed
  std::map<Key, Value> old_;
};

class CutCache {
 public:
  explicit CutCache(const Topology& topology) : topology_(topology) {}

  std::shared_ptr<const TensorLayout> layout_of(const Tensor& tensor);

  // Cuts blocks of `count` elements in fragments of at most as many elements as `parts` steps have.
  std::shared_ptr<const Cut> cut(const std::vector<BlockLayout>& layouts, std::int64_t count,
                                 DType dtype, int parts);

  // Layouts and cuts that it remembers.
  std::size_t size() const { return layouts_.size() + cuts_.size(); }

 private:
  using LayoutKey = std::tuple<std::vector<std::int64_t>, Shard, Shard, int, int>;

  // Pointers name layouts: a cut keeps its own alive, so they name no other ones.
  struct CutKey {
    std::vector<std::pair<const TensorLayout*, std::int64_t>> blocks;
    std::int64_t count = 0;
    DType dtype = DType::f32;
    int parts = 1;
    friend auto operator<=>(const CutKey&, const CutKey&) = default;
  };

  const Topology& topology_;
  RecentMap<LayoutKey, std::shared_ptr<const TensorLayout>, 1024> layouts_;
  RecentMap<CutKey, std::shared_ptr<const Cut>, 16384> cuts_;
};

// A fragment in parts of at most `most` elements.
void append_in_parts(std::vector<Fragment>& parts, const Fragment& whole, std::int64_t most);

}  // namespace kernbench::ccl
