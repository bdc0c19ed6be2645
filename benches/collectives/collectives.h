// The benches `collectives` and `ccl-allreduce`.  A program that has algorithms of its own can have
// them, too:
//
//   int main(int argc, char** argv) {
//     kernbench::benches::register_ccl_allreduce();
//     return kernbench::benches::main(argc, argv);
//   }

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches {

// Register a bench.  Throw UsageError KB-U006 if it is called again.
bool register_collectives();
bool register_ccl_allreduce();

}  // namespace kernbench::benches

namespace kernbench::benches::collectives {

BenchInfo collectives_bench();
BenchInfo ccl_allreduce_bench();

}  // namespace kernbench::benches::collectives
