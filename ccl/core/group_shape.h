// How the members of a group lie to each other: what an algorithm needs to know of a machine.
//
// Members are numbered by group rank.  Rings and grids are laid over the machine by distance, not
// by rank: neighbours in them are as close as the members allow.

#pragma once

#include <memory>
#include <vector>

#include "sim_engine/topology/grid.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ccl {

class Ways;

inline constexpr int kNobody = -1;
// The unit of the switch between SIPs that adds up messages of all members, as a node of a plan.
inline constexpr int kSwitch = -2;

// One member's place in a tree over members.
struct Branch {
  int distance = 0;        // from the root
  int inner = kNobody;     // the neighbour towards the root; kNobody at the root
  std::vector<int> outer;  // the neighbours away from it
};

// Members in a row: a ring, if the last one is close to the first, else a line.
class Row {
 public:
  Row() = default;
  Row(std::vector<int> members, bool wraps) : members_(std::move(members)), wraps_(wraps) {}

  int size() const { return static_cast<int>(members_.size()); }
  Row as_line() const { return {members_, false}; }
  bool wraps() const { return wraps_ && size() > 2; }  // two have one link either way
  int at(int position) const {
    return members_[static_cast<std::size_t>(((position % size()) + size()) % size())];
  }
  int position_of(int member) const;

  // The trees over all positions with their root at `target`.  `ahead` of the positions are
  // reached in ascending order, the others in descending order.
  // REQUIRES: a line's are those on either side
  Branch branch(int position, int target, int ahead) const;

  // How many positions lie ahead if every one is reached the shorter way, and `ties`, those that
  // are as far either way, ahead; in a line, those on that side.
  int nearest_ahead(int target, bool ties = true) const;
  // The most steps of such a tree.  All trees of a line take that many, so that they share links
  // evenly.
  int depth() const { return wraps() ? size() / 2 : size() - 1; }

 private:
  std::vector<int> members_;  // by position
  bool wraps_ = false;
};

struct GroupShape {
  int size = 1;
  Row ring;                // all members; closed over the machine only if it wraps
  bool closes = false;     // neighbours are joined by links of their own all round
  std::vector<int> nodes;  // by position in the ring: the SIP's place in the ring of all SIPs
  int node_count = 1;
  // The grid, of which a ring or line is one row: members by row and column.
  std::vector<Row> rows;
  std::vector<Row> columns;
  std::vector<Branch> tree;  // by member: the tree that reaches all in the fewest steps
  bool joins_all = false;    // any two members are neighbours: a switch or a full mesh
  bool is_of_pes = false;
  std::shared_ptr<const Ways> ways;  // null of groups whose members are not told apart by links

  int column_of(int member) const;
  int row_of(int member) const;
};

// The group of these SIPs, by group rank.
GroupShape shape_of_sips(const Topology& topology, const std::vector<int>& sips);

// The group of `count` PEs that are ranks: a ring by number, a grid as square as possible, and the
// binomial tree.
GroupShape shape_of_pes(int count);

// Returns w x h = count with w >= h, as square as possible.
sim::Grid square_grid(int count);

}  // namespace kernbench::ccl
