// How a random program of collectives ends, by a plain model of ranks that meet: no tensors, no
// time, no fibers.

#pragma once

#include <string>
#include <vector>

#include "test/runtime/distributed/random_program.h"

namespace kernbench::test {

// "" if it ends well, else the code of its error: KB-C001 (they call different things), KB-C002
// (one has left that others wait for) or KB-D001 (they wait for each other).  `steps` are those of
// each rank, without messages.  Ranks take turns in an order drawn from `random`: where several
// errors are possible, it may say another one the next time.
std::string outcome_of(std::mt19937& random, const RandomProgram& program,
                       const std::vector<std::vector<Step>>& steps);

}  // namespace kernbench::test
