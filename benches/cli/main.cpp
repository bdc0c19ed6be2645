#include "benches/cli/program.h"
#include "benches/collectives/ccl_allreduce.h"
#include "benches/collectives/collectives.h"

int main(int argc, char** argv) {
  kernbench::benches::register_ccl_allreduce();
  kernbench::benches::register_collectives();
  return kernbench::benches::main(argc, argv);
}
