// Members joined by links, and flows over them.

#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace kernbench::ccl {

constexpr std::size_t as_index(int number) {
  return static_cast<std::size_t>(number);
}

class FlowGraph {
 public:
  // One direction of a link.
  struct Arc {
    int from = 0;
    int to = 0;
    int twin = 0;  // the arc in the opposite direction
  };
  // The units that each arc can still carry: one less for each way over it, and one more for each
  // way that goes against it.
  using Capacities = std::vector<int>;

  // `links` are pairs of members, in both directions.
  FlowGraph(int size, const std::set<std::pair<int, int>>& links);

  int size() const { return size_; }
  int arc_count() const { return static_cast<int>(arcs_.size()); }
  const Arc& arc(int number) const { return arcs_[static_cast<std::size_t>(number)]; }
  // The arcs out of a member are those from first_arc(member) to before first_arc(member + 1).
  int first_arc(int member) const { return first_arcs_[static_cast<std::size_t>(member)]; }
  int degree(int member) const { return first_arc(member + 1) - first_arc(member); }

  // Takes a shortest way by what is left.  Returns false if there is none.
  bool take_way(Capacities& left, int root, int member) const;
  // Returns by member if a way leads there by what is left.
  std::vector<bool> reached(const Capacities& left, int root) const;

 private:
  // Returns the arcs of a shortest way, each by the member at which it ends; -1: none does.  It
  // leads to `member`, or, if that is -1, to all that can be reached.
  std::vector<int> find_way(const Capacities& left, int root, int member) const;

  int size_;
  std::vector<Arc> arcs_;        // by `from`, then by `to`
  std::vector<int> first_arcs_;  // by member, and one behind the last
};

// Ways from a root to each other member, `chunk_count` for each, such that the most that go over
// one link are as few as can be: a flow, whose capacities rise until all of it fits.
struct SpreadWays {
  int chunk_count = 1;
  std::vector<std::vector<int>> ways;  // by chunk and member: all members from the root on
  int most = 0;                        // ways over one link
  // The most members behind a link's share of a cut: no ways, however many, load links with less
  // for one way to each member.
  double least_load = 0;

  double load() const { return static_cast<double>(most) / chunk_count; }
};
SpreadWays spread_ways(const FlowGraph& graph, int root, int chunk_count);

}  // namespace kernbench::ccl
