// A model that computes a program's results and whether it is legal.  It has no tensors, no time
// and no fibers, only arrays of numbers that are changed step by step.

#pragma once

#include <compare>
#include <set>
#include <string>
#include <vector>

#include "test/ccl/differential/shared_program.h"

namespace kernbench::test::differential {

using Elements = std::vector<double>;

// The values that one run of a program shows.
struct Outcome {
  std::vector<std::vector<Elements>> tensors;  // [rank][tensor] at the end
  std::vector<std::vector<Elements>> seen;     // [rank]: what it read, in the order of its reads
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// REQUIRES: the program is legal
Outcome expected_outcome(const Program& program);

// The calls that a rank has issued and not waited for.
class PendingCalls {
 public:
  // Makes the rank's call of a step if it is legal, and returns ""; else returns the code of the
  // error.
  std::string call(const Program& program, int rank, int step);
  // The steps that the rank has to wait for before it may call this one.
  std::vector<int> obstacles(const Program& program, int rank, int step) const;
  // All steps that the rank could wait for.
  std::vector<int> waitable() const;

 private:
  struct Pending {
    int step = 0;
    int stream = 0;  // the group's number; a message has a unique negative number
    std::set<int> reads;
    std::set<int> writes;
  };

  void know(int step);
  void know_all_of(int tensor);

  std::vector<Pending> pending_;  // in the order of their calls
};

// The call of a rank that is refused, and the code of the error.
struct Refusal {
  int rank = 0;
  int step = 0;
  std::string code;
  friend auto operator<=>(const Refusal&, const Refusal&) = default;
};
std::string to_string(const Refusal& refusal);

// The first refusal of each rank that has one, since the model does not know which comes first in
// time.  Empty if the program is legal.
std::set<Refusal> refusals(const Program& program);

}  // namespace kernbench::test::differential
