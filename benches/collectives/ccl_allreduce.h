// The bench ccl-allreduce, for programs that have algorithms of their own:
//
//   int main(int argc, char** argv) {
//     kernbench::benches::register_ccl_allreduce();
//     return kernbench::benches::main(argc, argv);
//   }

#pragma once

namespace kernbench::benches {

// Registers the bench ccl-allreduce.  Call it once.
bool register_ccl_allreduce();

}  // namespace kernbench::benches
