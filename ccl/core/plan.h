// A plan says what a collective does, whatever the placement of its tensors: which member sends
// which chunk to whom, and what is reduced on the way.
//
// A chunk travels along a tree over members.  Its sums flow towards the root (reduce), which sends
// the result away along the same or another tree (broadcast).  Every algorithm is a choice of
// chunks, trees and times, and is planned for one member at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/distributed/options.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ccl {

// The root of a tree over a grid.  The centre is reached from both sides at once: on w x h nodes
// in floor(w/2) + floor(h/2) steps; a corner in (w - 1) + (h - 1), if nothing wraps around.
// `corner` is the last node, (w - 1, h - 1): of a SIP whose IO chiplet is on the west or the north
// edge, the cube farthest from it.  `first_corner` is node 0, beside that chiplet.
// Each collective has the fastest of the three by the model where a file says `auto`.
enum class Root : std::uint8_t { center, corner, first_corner, automatic };

// Returns the root among the first `count` nodes of a grid.  REQUIRES: it is not automatic
int root_of(const sim::Grid& grid, int count, Root root);

// GroupShape says how the members of a group lie to each other, which is all that an algorithm
// needs to know of a machine.
//
// Members are numbered by group rank.  Rings and grids are laid over the machine by distance, not
// by rank: neighbours in them are as close as the members allow.

class EdgeDisjointTrees;
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

  // How far a position lies from the target in that tree: one more at each step in ascending order,
  // one less in descending order.  Of two, each sees the other ahead.
  int offset(int position, int target, int ahead) const {
    const int distance = (position - target + size()) % size();
    return distance <= ahead || size() == 2 ? distance : distance - size();
  }

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

// Members that have a place of their own along each of several dimensions, from those of a node's
// grid to the outermost level of nodes.
class MemberBox {
 public:
  struct Dimension {
    Row row;                   // of places along it, from 0
    bool joins_all = false;    // any two of them are neighbours
    bool is_of_nodes = false;  // each lies in a node of its own
    double slowness = 1;       // the time of bytes on its links over that on the first dimension's

    int size() const { return row.size(); }
    int depth() const { return joins_all ? 1 : row.depth(); }
    // The place `at` in the tree to the place `target`; of two ways round that are as long, ahead.
    Branch branch(int at, int target, bool ties_ahead) const;
  };

  MemberBox() = default;
  // `places` has those of each member, by dimension; of these, only those are kept that have more
  // than one.  Members that do not fill the box have none.
  MemberBox(std::vector<Dimension> dimensions, const std::vector<std::vector<int>>& places);

  bool is_filled() const { return !members_.empty(); }
  int dimension_count() const { return static_cast<int>(dimensions_.size()); }
  const Dimension& dimension(int i) const { return dimensions_[static_cast<std::size_t>(i)]; }
  int place_of(int member, int dimension) const;
  // The member that differs in one place alone.
  int with_place(int member, int dimension, int place) const;
  // The rows of members along each dimension, and those of one member.
  std::vector<Row> lines() const;
  std::vector<Row> lines_through(int member) const;

 private:
  int stride(int dimension) const;
  Row line(int member, int dimension) const;

  std::vector<Dimension> dimensions_;  // inner to outer
  std::vector<int> members_;           // by place in the box
  std::vector<int> indices_;           // by member: the inverse
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
  // The time of bytes on the machine's slowest link along columns over that along rows.
  double column_slowness = 1;
  std::vector<Branch> tree;  // by member: the tree that reaches all in the fewest steps
  bool joins_all = false;    // any two members are neighbours: a switch or a full mesh
  bool spans_nodes = false;  // rows are nodes, with the same places in each
  // The box that members fill if they span nodes, or if it has three dimensions, of which rows and
  // columns show only two.
  MemberBox box;
  bool is_of_pes = false;
  // Null of a line, and of too many members.
  std::shared_ptr<const EdgeDisjointTrees> trees;
  std::shared_ptr<const Ways> ways;  // null of groups whose members are not told apart by links
  // As place_of(), on a grid that closes; empty of other groups.
  std::function<int(int from, int member)> place_on_grid;

  bool is_box() const { return box.is_filled() && !spans_nodes; }

  // Returns the place of a member as counted from another one: along the ring, or forward in each
  // dimension of a grid that closes.  Members that stand alike see each other in one order.
  int place_of(int from, int member) const;
  int column_of(int member) const;
  int row_of(int member) const;
};

// Returns the SIPs as they are numbered from the first one, or from the corner of a mesh that they
// reach: a group and its translations are one to the model, and run alike.  Where links are unlike,
// or shared, they need not stand alike.
std::vector<int> shift_to_first(const Topology& topology, const std::vector<int>& sips);

// The group of these SIPs, by group rank.
GroupShape shape_of_sips(const Topology& topology, const std::vector<int>& sips);

// The group of `count` PEs that are ranks: a ring by number, a grid as square as possible, and the
// binomial tree.
GroupShape shape_of_pes(int count);

// Returns w x h = count with w >= h, as square as possible.
sim::Grid square_grid(int count);

// True if each block is meant for one member: it goes between any two, not along a ring or tree.
constexpr bool has_pairs(distributed::CollectiveKind kind) {
  using enum distributed::CollectiveKind;
  return kind == all_to_all || kind == gather || kind == scatter;
}

// Chunks [begin, end) of a block, which is cut into Plan::chunk_count of nearly equal size.
struct ChunkRange {
  int begin = 0;
  int end = 1;
  int giver = kNobody;  // whose block, if each member gives one of its own
  int taker = kNobody;  // for whom, if it is meant for one

  int count() const { return end - begin; }

  friend auto operator<=>(const ChunkRange&, const ChunkRange&) = default;
};

// Where neighbours send to each other both ways, a message may be under way for two times, so that
// neither waits for what the other has yet to send.
inline constexpr int kTimesOfHop = 2;

// A member's place in a tree that is given, by member, by the neighbour towards the root; messages
// are under way for kTimesOfHop.  No tree at all is one of the member alone.
Branch branch_of(const std::vector<int>& inner, int member);

// A member's work on some chunks: it reduces the messages and its own value, in this order, sends
// the result and stores it.
struct Move {
  // When it does so.  A message that is sent at t is received at t + 1, so that all members agree
  // on the order in which messages follow each other.
  int time = 0;
  int stage = 0;  // what has the same time is done in this order, and by chunks
  ChunkRange chunks;
  std::vector<int> from;     // nodes
  bool has_source = false;   // its own value is the member's input
  std::vector<int> held;     // else what these earlier moves hold of the chunks
  bool is_complete = false;  // the result is the reduction over all members
  std::vector<int> to;       // nodes
  bool stores = false;
};

class Plan {
 public:
  using Kind = distributed::CollectiveKind;

  Plan(Kind kind, int member) : kind_(kind), member_(member) {}

  Kind kind() const { return kind_; }
  int member() const { return member_; }

  int chunk_count = 1;  // that a block is cut into
  // PEs of each member that take part in a lane: 1, or the number of its cubes.  A node is
  // member * nodes_per_member + cube.
  int nodes_per_member = 1;
  // The same on all members: when the last one is done, and how many moves of a slice, and of
  // those that overlap with it, there are at a time.
  int length = 1;
  int width = 1;
  // A lane's slices begin in turn: `slices_at_once` together, and the next ones `slice_interval`
  // later.  By default that is when the first ones turn back, so that both directions of the links
  // are busy.
  int slices_at_once = 2;
  int slice_interval = 0;  // 0: half of the length
  // The chunks form this many channels of equally many, which travel different ways at once.  Where
  // lanes divide evenly among them, a lane has the messages of one channel alone, and fewer of
  // them.
  int channels = 1;
  bool halves = false;  // messages have half of those before: all later ones are as one of them
  std::vector<Move> moves;

  // Sums flow along the tree; the root has them at `time`.
  Move& reduce(const ChunkRange& chunks, const Branch& up, int time);
  // The root's value flows along the tree; it sends it at `time`.
  Move& broadcast(const ChunkRange& chunks, const Branch& down, int time);
  // Adds both trees, with one move at the root.  Returns the index of the move that has the result.
  int all_reduce(const ChunkRange& chunks, const Branch& up, const Branch& down, int time);

  // Moves chunks that belong to a target as the collective needs it: for all_reduce the sums of
  // these chunks, for all_gather the target's block, for reduce_scatter the sums of its block.
  void along(int target, ChunkRange chunks, const Branch& up, const Branch& down, int depth);

  // The most chunks that any move has.
  int most_chunks() const;
  // The most messages to one node in two times that follow each other.
  int burst() const;

 private:
  Kind kind_;
  int member_;
};

// The cubes of a SIP that hold summands or copies of the same elements, and the tree over them.
struct CubeTree {
  sim::Grid cubes;
  int count = 1;          // this many of the first
  bool has_sums = false;  // each cube has summands; else all have copies
  Root root = Root::center;
};

struct PlanRequest {
  const GroupShape& shape;
  distributed::CollectiveKind kind = distributed::CollectiveKind::all_reduce;
  int root = 0;  // of a broadcast, reduce, gather or scatter
  int self = 0;  // the node to plan for
  CubeTree cubes = {};
};

// Adds the moves of one member, or, if nodes_per_member > 1, of one cube of it.
using AlgorithmPlan = void (*)(const PlanRequest&, Plan&);

}  // namespace kernbench::ccl
