#include "ccl/core/sum_trees.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

std::string name_of(const Summand& summand) {
  std::string name = "r" + std::to_string(summand.member);
  if (summand.cube != kNobody) name += ".cube" + std::to_string(summand.cube);
  if (summand.pe != kNobody) name += ".pe" + std::to_string(summand.pe);
  return name;
}

}  // namespace

SumTrees::Tree SumTrees::add_summand(const Summand& summand) {
  const auto [known, is_new] = summands_.try_emplace(summand, kNone);
  if (is_new) known->second = keep({.summand = summand}, bits_count_++);
  return known->second;
}

SumTrees::Tree SumTrees::add(Tree left, Tree right) {
  const auto [known, is_new] = sums_.try_emplace({left, right}, kNone);
  if (!is_new) return known->second;
  const int one = number_of_bits(left);
  const int other = number_of_bits(right);
  const auto [bits, has_new_bits] =
      bits_of_sums_.try_emplace({std::min(one, other), std::max(one, other)}, bits_count_);
  if (has_new_bits) ++bits_count_;
  known->second = keep({.summand = {},
                        .left = left,
                        .right = right,
                        .depth = std::max(node(left).depth, node(right).depth) + 1,
                        .summands = node(left).summands + node(right).summands},
                       bits->second);
  return known->second;
}

SumTrees::Tree SumTrees::keep(const Node& node, int bits) {
  nodes_.push_back(node);
  bits_.push_back(bits);
  return static_cast<Tree>(nodes_.size()) - 1;
}

std::string SumTrees::text(Tree tree) const {
  // A chain over thousands of members is as deep as it has members, so nothing recurses here.
  struct Pending {
    Tree tree = kNone;
    std::string after;
  };
  std::string text;
  std::vector<Pending> pending = {{tree, ""}};
  while (!pending.empty()) {
    const Pending next = std::move(pending.back());
    pending.pop_back();
    if (next.tree == kNone) {
      text += next.after;
      continue;
    }
    const Node& at = node(next.tree);
    if (at.is_summand()) {
      text += name_of(at.summand);
      continue;
    }
    text += '(';
    pending.push_back({kNone, ")"});
    pending.push_back({at.right, ""});
    pending.push_back({kNone, "+"});
    pending.push_back({at.left, ""});
  }
  return text;
}

}  // namespace kernbench::ccl
