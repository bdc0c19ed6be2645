// The program of the guide ccl/writing-a-collective.md, with kernbench's command line.

#include <kernbench/kernbench.h>

namespace kb = kernbench;

// guide: begin
int main(int argc, char** argv) {
  kb::benches::register_shipped_benches();
  return kb::benches::main(argc, argv);
}
// guide: end
