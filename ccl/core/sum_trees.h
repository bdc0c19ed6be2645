// Sums as trees over summands: which two partial sums each addition adds.  Additions of floating
// point round, so the tree of a sum decides on its bits.

#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// A member's value of an element, or one of several that its PEs have (a partial tensor).
struct Summand {
  int member = 0;
  int cube = kNobody;  // kNobody: all summands of the member lie on one
  int pe = kNobody;    // likewise

  friend auto operator<=>(const Summand&, const Summand&) = default;
};

// Keeps trees, each once: equal sums have equal numbers.
class SumTrees {
 public:
  using Tree = int;
  static constexpr Tree kNone = -1;

  struct Node {
    Summand summand;     // if it adds nothing
    Tree left = kNone;   // the first operand; kNone: it is a summand
    Tree right = kNone;  // the second
    int depth = 0;       // so many additions follow each other, and each rounds
    int summands = 1;

    bool is_summand() const { return left == kNone; }
  };

  Tree add_summand(const Summand& summand);
  Tree add(Tree left, Tree right);

  // Trees are numbered from 0, those that a tree adds before it.
  std::size_t size() const { return nodes_.size(); }
  const Node& node(Tree tree) const { return nodes_[static_cast<std::size_t>(tree)]; }

  // Returns a number that two trees share if they differ at most in the order of the two operands
  // of additions, which no bit depends on.
  int number_of_bits(Tree tree) const { return bits_[static_cast<std::size_t>(tree)]; }

  // "((r1+r2)+r0)"; of several summands of a member "(r0.cube0+r0.cube1)".
  std::string text(Tree tree) const;

 private:
  Tree keep(const Node& node, int bits);

  std::vector<Node> nodes_;
  std::vector<int> bits_;  // by tree
  std::map<Summand, Tree> summands_;
  std::map<std::pair<Tree, Tree>, Tree> sums_;
  std::map<std::pair<int, int>, int> bits_of_sums_;  // by the numbers of both operands, in order
  int bits_count_ = 0;
};

}  // namespace kernbench::ccl
