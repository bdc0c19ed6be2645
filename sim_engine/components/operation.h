// The operation that a message belongs to.

#pragma once

#include <cstdint>

namespace kernbench::sim {

// The most PEs of a launch that share a slice of HBM, and a cube.
struct Sharers {
  int of_slice = 1;
  int of_cube = 1;
};

// The launch or collective that a kernel and its messages belong to.
struct Operation {
  std::uint64_t number = 0;
  bool is_collective = false;
  Sharers sharers = {};  // one PE each for a collective

  friend bool operator==(const Operation& a, const Operation& b) {
    return a.number == b.number && a.is_collective == b.is_collective;
  }
};

// True if a kernel of `b` may take a message of `a`.  The user's kernels may exchange messages
// across launches; a collective's messages belong to that collective alone.
inline bool share_messages(const Operation& a, const Operation& b) {
  return a.is_collective || b.is_collective ? a == b : true;
}

// The number of messages that kernels of an operation have sent, minus those of the same operation
// that they have received.
struct MessageBalance {
  std::int64_t in_sip = 0;
  std::int64_t between_sips = 0;

  std::int64_t& of(bool in_one_sip) { return in_one_sip ? in_sip : between_sips; }
  MessageBalance& operator+=(const MessageBalance& other) {
    in_sip += other.in_sip;
    between_sips += other.between_sips;
    return *this;
  }
};

}  // namespace kernbench::sim
