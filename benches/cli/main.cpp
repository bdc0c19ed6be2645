#include "benches/cli/program.h"

int main(int argc, char** argv) {
  kernbench::benches::register_shipped_benches();
  return kernbench::benches::main(argc, argv);
}
