// State that what is built on the runtime keeps with a context: found by its type, so that the
// runtime does not know what there is, and gone with the context.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <typeindex>
#include <utility>
#include <vector>

#include "runtime/context/fiber_local.h"

namespace kernbench::runtime {

class Attachment {
 public:
  Attachment() = default;
  virtual ~Attachment() = default;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // A spawn() is over, well or not: drops what belongs to its ranks.
  virtual void forget_ranks() = 0;
};

class Attachments {
 public:
  // The only T, made at the first call.
  template <class T>
  T& get() {
    const std::type_index type(typeid(T));
    const auto found = std::ranges::find(slots_, type, &Slot::first);
    if (found != slots_.end()) return static_cast<T&>(*found->second);
    slots_.emplace_back(type, std::make_unique<T>());
    return static_cast<T&>(*slots_.back().second);
  }

  void forget_ranks() {
    for (const Slot& slot : slots_) slot.second->forget_ranks();
  }

 private:
  using Slot = std::pair<std::type_index, std::unique_ptr<Attachment>>;
  std::vector<Slot> slots_;  // few; in the order of their making
};

// A T for each rank, which ends with its spawn(), and one for code that is no rank, which stays.
template <class T>
class PerRank : public Attachment {
 public:
  // The caller's, made at the first call; its address stays.
  T& of(const FiberLocal& caller) {
    return caller.kind == FiberLocal::Kind::unbound ? driver_ : ranks_[caller.rank];
  }
  void forget_ranks() override { ranks_.clear(); }

 private:
  T driver_{};
  std::map<int, T> ranks_;
};

}  // namespace kernbench::runtime
