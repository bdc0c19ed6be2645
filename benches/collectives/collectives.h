// The benches `collectives` and `ccl-allreduce`, for programs that have algorithms of their own:
//
//   int main(int argc, char** argv) {
//     kernbench::benches::register_ccl_allreduce();
//     return kernbench::benches::main(argc, argv);
//   }

#pragma once

namespace kernbench::benches {

// Register a bench.  Call each once.
bool register_collectives();
bool register_ccl_allreduce();

}  // namespace kernbench::benches
