// Random programs of ranks.  Tensors live through the whole program, so that calls overlap
// operations under way: collectives of several groups and messages that are waited for later, with
// views, kernels, host writes and host reads between them.

#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/distributed/options.h"

namespace kernbench::test::differential {

enum class Kind : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,
  message,   // isend and irecv, or send and recv
  exchange,  // batch_isend_irecv of two ranks
  store,     // a kernel that writes a tensor, or both rows
  move,      // a kernel that reads one tensor and writes another
  add,       // the operator: reads two tensors
  write,     // copy_ from the host, into a tensor or both rows
  copy,      // copy_ from another tensor
  read,      // to_vector, of a tensor or both rows
  wait,      // for the Work of an earlier step
};

// One of a rank's tensors: itself, or a view of it.
struct Operand {
  int tensor = 0;
  enum class View : std::uint8_t { none, detached, reshaped } view = View::none;
};

// The call of one rank.
struct Call {
  std::vector<Operand> gives;  // lists have an operand for each member, by group rank
  std::vector<Operand> takes;
  bool is_async = false;
  bool polls = false;  // of a wait: by is_completed()
};

// A step that ranks take together, or that one rank takes alone.
struct Step {
  Kind kind = Kind::barrier;
  int group = 0;  // in the program's groups
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // global rank; of a message, the sender; of a rank alone, that rank
  int peer = 0;  // of a message or an exchange, the other rank
  int value = 0;
  int waits_for = 0;                       // of a wait: the step
  std::vector<std::optional<Call>> calls;  // by global rank
};

struct Program {
  int ranks = 2;
  std::int64_t elements = 1;             // of each tensor
  std::vector<std::vector<int>> groups;  // members by group rank; the first is the world
  std::vector<Step> steps;
  // By rank: the steps that it takes part in, in its own order, which may differ from that of
  // `steps` between independent steps.
  std::vector<std::vector<int>> orders;
};

inline constexpr int kTensors = 5;  // of each rank
// Two of the tensors are the rows of a matrix; a call on both, in this order, uses the matrix.
inline constexpr int kFirstRow = 2;
bool are_rows(const std::vector<Operand>& operands);

// The value of element `index` of a rank's tensor at the start.
double initial(int rank, int tensor, std::int64_t index);

// The groups of a world of `ranks` ranks.
std::vector<std::vector<int>> groups_of(int ranks);

// Makes a random program.  About half of all programs are legal: some always wait for everything
// that stands in the way of a call, the others sometimes do not.
Program make_program(std::uint32_t seed);

// The program as text, for people to read when it fails.
std::string to_string(const Program& program);

}  // namespace kernbench::test::differential
