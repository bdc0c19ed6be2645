// The tree over members whose messages cost the least.

#pragma once

#include <cstddef>
#include <vector>

namespace kernbench::ccl {

// The costs of messages from each member to each other one.
class MessageCosts {
 public:
  explicit MessageCosts(int size)
      : size_(size), costs_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), 0) {}

  int size() const { return size_; }
  double& at(int from, int to) { return costs_[static_cast<std::size_t>(from * size_ + to)]; }
  double at(int from, int to) const { return costs_[static_cast<std::size_t>(from * size_ + to)]; }
  // The same messages in the opposite direction.
  MessageCosts reversed() const;

 private:
  int size_;
  std::vector<double> costs_;
};

// Returns, by member, the one that sends to it in the tree out of `root` with the least sum of
// costs, and kNobody at the root.  Source: Chu and Liu (1965); Edmonds, "Optimum branchings"
// (1967).
std::vector<int> least_tree(const MessageCosts& costs, int root);

double cost_of_tree(const MessageCosts& costs, const std::vector<int>& inner);

// Returns the members on the way from one to another with the least sum of costs, both included.
std::vector<int> least_way(const MessageCosts& costs, int from, int to);

}  // namespace kernbench::ccl
