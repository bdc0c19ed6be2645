// The operation that a message belongs to.

#pragma once

#include <cstdint>

namespace kernbench::sim {

// The launch or the collective that a kernel, and a message of its, belongs to.
struct Operation {
  std::uint64_t number = 0;
  bool is_collective = false;

  friend bool operator==(const Operation&, const Operation&) = default;
};

// Kernels of the user's may send each other messages from launch to launch; those of a collective
// are nobody else's.
inline bool share_messages(const Operation& a, const Operation& b) {
  return a.is_collective || b.is_collective ? a == b : true;
}

// Messages that kernels of an operation have sent, less those of the same operation that they have
// received.
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
