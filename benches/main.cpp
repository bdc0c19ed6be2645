#include "benches/program.h"

int main(int argc, char** argv) {
  return kernbench::benches::main(argc, argv);
}
