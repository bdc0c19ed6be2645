// Random programs of ranks that call torch.distributed, and what they compute by a plain reference
// that shares nothing with it.

#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/torch/runtime_context.h"

namespace kernbench::test {

// One step: every member of the group does it, in the program's order.
struct Step {
  enum class Kind {
    all_reduce,
    broadcast,
    reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather,
    scatter,
    barrier,
    message
  };

  Kind kind = Kind::barrier;
  std::size_t group = 0;  // 0: the world
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // global rank; of a message: the sender
  int peer = 0;  // of a message: the receiver
  int tag = 0;
  std::int64_t count = 1;  // elements of a block
  std::uint32_t seed = 0;  // of the elements
  bool is_async = false;   // waited for at the end of the program
};

struct RandomProgram {
  int ranks = 2;
  std::vector<std::vector<int>> groups;  // the first is the world
  std::vector<Step> steps;

  bool is_member(std::size_t group, int rank) const;
  bool takes_part(const Step& step, int rank) const;
};

struct ProgramOptions {
  bool has_groups = true;
  bool has_messages = true;
  bool has_async = true;
};

RandomProgram make_program(std::mt19937& random, int ranks, const ProgramOptions& options);

// A rank's elements after each step in which it took part: [step] -> elements.
using History = std::vector<std::vector<float>>;
History expected_history(const RandomProgram& program, int rank);

// Runs the rank's part of it.  `steps` may differ from the program's: an illegal program.
History run_rank(RuntimeContext& torch, const RandomProgram& program,
                 const std::vector<Step>& steps, int rank);

}  // namespace kernbench::test
