#include "benches/ccl_allreduce.h"
#include "benches/program.h"

int main(int argc, char** argv) {
  kernbench::benches::register_ccl_allreduce();
  return kernbench::benches::main(argc, argv);
}
