// A queue that allocates nothing once it has grown.

#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace kernbench::ccl {

template <class T>
class Fifo {
 public:
  void push(T item) {
    if (count_ == ring_.size()) grow();
    at(count_++).emplace(std::move(item));
  }
  T pop() {
    std::optional<T>& slot = at(0);
    T item = std::move(*slot);
    slot.reset();
    ++first_;
    --count_;
    return item;
  }
  bool empty() const { return count_ == 0; }
  const T& front() const { return *ring_[first_ & (ring_.size() - 1)]; }
  template <class Visit>
  void visit(Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) visit(*ring_[(first_ + i) & (ring_.size() - 1)]);
  }

 private:
  std::optional<T>& at(std::size_t index) { return ring_[(first_ + index) & (ring_.size() - 1)]; }
  void grow() {
    std::vector<std::optional<T>> larger(std::max<std::size_t>(2 * ring_.size(), 4));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(at(i));
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<std::optional<T>> ring_;  // its size is a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace kernbench::ccl
