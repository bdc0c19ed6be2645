// State that code built on the simulation keeps with it.  It is found by its type, so that the
// runtime need not know it, and is destroyed with the context.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <typeindex>
#include <utility>
#include <vector>

#include "runtime/fiber/fiber_local.h"

namespace kernbench::runtime {

class Attachment {
 public:
  Attachment() = default;
  virtual ~Attachment() = default;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Drops the state of a spawn()'s ranks, which is over, well or not.
  virtual void forget_ranks() = 0;
};

class Attachments {
 public:
  // Returns the simulation's only T; the first call makes it.
  template <class T>
  T& get() {
    const std::type_index type(typeid(T));
    const auto found = std::ranges::find(slots_, type, &Slot::first);
    if (found != slots_.end()) return static_cast<T&>(*found->second);
    slots_.emplace_back(type, std::make_unique<T>());
    return static_cast<T&>(*slots_.back().second);
  }

  // Destroys all state.  Called when the context ends, to whose groups it may refer.
  void clear() {
    slots_.clear();
    are_cleared_ = true;
  }
  bool are_cleared() const { return are_cleared_; }

  void forget_ranks() {
    for (const Slot& slot : slots_) slot.second->forget_ranks();
  }

 private:
  using Slot = std::pair<std::type_index, std::unique_ptr<Attachment>>;
  std::vector<Slot> slots_;  // few, in the order of creation
  bool are_cleared_ = false;
};

// Holds a T for each rank, which ends with its spawn(), and one for code outside of ranks, which
// stays.
template <class T>
class PerRank : public Attachment {
 public:
  // Returns the caller's T, which the first call makes; its address stays the same.
  T& of(const FiberLocal& caller) {
    return caller.kind == FiberLocal::Kind::unbound ? driver_ : ranks_[caller.rank];
  }
  void forget_ranks() override { ranks_.clear(); }
  // Returns a rank's T; null if it has none.
  T* find_of_rank(int rank) {
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? nullptr : &found->second;
  }
  // Calls `visit` for each T that there is: the driver's, then those of ranks but some.
  template <class Visit>
  void for_each(Visit visit, const std::set<int>& without = {}) {
    visit(driver_);
    for (auto& [rank, own] : ranks_) {
      if (!without.contains(rank)) visit(own);
    }
  }

 private:
  T driver_{};
  std::map<int, T> ranks_;
};

}  // namespace kernbench::runtime
