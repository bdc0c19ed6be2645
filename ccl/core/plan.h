// What a collective does, before it is known where tensors lie: which member sends which chunk to
// whom, and what is reduced on the way.
//
// A chunk travels along a tree over members.  Its sums flow towards the root (reduce), which sends
// the result away along the same or another tree (broadcast).  Every algorithm is a choice of
// chunks, trees and times, and is planned for one member at a time.

#pragma once

#include <vector>

#include "ccl/core/group_shape.h"
#include "ccl/core/spanning_tree.h"
#include "runtime/distributed/collective_kind.h"

namespace kernbench::ccl {

// Units [begin, end) of a block, which is cut into Plan::units of nearly equal size.
struct Chunk {
  int begin = 0;
  int end = 1;
  int giver = kNobody;  // whose block, if each member gives one of its own
  int taker = kNobody;  // for whom, if it is meant for one

  friend auto operator<=>(const Chunk&, const Chunk&) = default;
};

// Where neighbours send to each other both ways, a message may be under way for two times, so that
// neither waits for what the other has yet to send.
inline constexpr int kTimesOfHop = 2;

// A member's place in a tree that is given, by member, by the neighbour towards the root; messages
// are under way for kTimesOfHop.  No tree at all is one of the member alone.
Branch branch_of(const std::vector<int>& inner, int member);

// What a member does with a chunk: it reduces the messages and its own value, in this order, sends
// the result and stores it.
struct Move {
  // When it does so.  A message that is sent at t is received at t + 1, so that all members agree
  // on the order in which messages follow each other.
  int time = 0;
  int stage = 0;  // what has the same time is done in this order, and by chunk
  Chunk chunk;
  std::vector<int> from;     // nodes
  bool has_source = false;   // its own value is the member's input
  std::vector<int> parts;    // else what these earlier moves hold, where it overlaps the chunk
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

  int units = 1;  // that a block is cut into
  // PEs of each member that take part in a lane: 1, or the number of its cubes.  A node is
  // member * nodes_per_member + cube.
  int nodes_per_member = 1;
  // The same on all members: when the last one is done, and how many moves of a fragment, and of
  // those that overlap with it, there are at a time.
  int length = 1;
  int width = 1;
  // The data is cut in parts, of which `window` begin together, and the next `window` parts begin
  // `interval` later.  By default that is when the first parts turn back, so that both directions
  // of the links are busy.
  int window = 2;
  int interval = 0;  // 0: half of the length
  // The units are so many equal parts that travel different ways at once.  Lanes are dealt to them
  // if they can be, so that each has messages of one alone, and fewer of them.
  int colours = 1;
  bool halves = false;  // messages have half of those before: all later ones are as one of them
  std::vector<Move> moves;

  // Sums flow along the tree; the root has them at `time`.
  Move& reduce(const Chunk& chunk, const Branch& up, int time);
  // The root's value flows along the tree; it sends it at `time`.
  Move& broadcast(const Chunk& chunk, const Branch& down, int time);
  // Both, in one move of the root.  Returns the index of the move that has the result.
  int all_reduce(const Chunk& chunk, const Branch& up, const Branch& down, int time);

  // Moves a chunk that belongs to a target as the collective needs it: for all_reduce the sums of
  // a part of the block, for all_gather the target's block, for reduce_scatter the sums of its
  // block.
  void along(int target, Chunk chunk, const Branch& up, const Branch& down, int depth);

  // `interval`, or half of the length.
  int window_interval() const;
  // The units of the largest chunk.
  int largest_chunk() const;
  // The most messages to one node in two times that follow each other.
  int burst() const;

 private:
  Kind kind_;
  int member_;
};

// The cubes of a SIP that hold summands or copies of the same elements, and the tree over them.
struct CubeTree {
  sim::Grid cubes;
  int count = 1;          // the first so many
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
