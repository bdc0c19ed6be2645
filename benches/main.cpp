#include "benches/collectives.h"
#include "benches/program.h"

int main(int argc, char** argv) {
  kernbench::benches::register_ccl_allreduce();
  kernbench::benches::register_collectives();
  return kernbench::benches::main(argc, argv);
}
