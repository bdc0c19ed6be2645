// How keys and values come by all ranks of a ring, and how their gradients come home.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/context_parallel/ring.h"
#include "runtime/distributed/work.h"

namespace kernbench::experimental {

class KeyRotation {
 public:
  virtual ~KeyRotation() = default;
  // Returns the keys of ring.source(step), when they are here or what is launched waits for them.
  // Steps ascend from 0 to the ring's size.
  virtual KeyValue arrive(int step) = 0;
  // All that the step computes is launched.
  virtual void launched(int step) = 0;
};

// Begins to move the caller's keys at once.  Keys that are passed on take two further places: they
// are sent on when they arrive, and the next ones come when the step before is done.  Gathered
// ones take a place for each rank.
std::unique_ptr<KeyRotation> begin_rotation(const Ring& ring, const KeyValue& own);

// Sums of gradients, in f32, that follow the keys from rank to rank.
class GradientRotation {
 public:
  explicit GradientRotation(const Ring& ring) : ring_(ring) {}

  // Adds what the caller has computed for the keys of a step, if it has, and passes the sum on: the
  // last step passes it home.
  void pass(const std::optional<KeyValue>& own);
  // Returns the sums for the caller's keys.
  KeyValue take_home();

 private:
  struct Arriving {
    KeyValue sums;
    std::vector<distributed::Work> works;
  };
  KeyValue wait();

  Ring ring_;
  std::optional<Arriving> arriving_;
  std::optional<KeyValue> home_;  // of a ring of one
  std::vector<distributed::Work> sends_;
};

}  // namespace kernbench::experimental
