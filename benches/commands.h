// The commands of the program.  Each returns the exit code, or throws.

#pragma once

#include "benches/cli.h"

namespace kernbench::benches {

int list(const ListArguments& arguments);
int run(const RunArguments& arguments);
int probe(const ProbePathArguments& arguments);
int probe(const ProbeBoundArguments& arguments);
int probe(const ProbeGemmArguments& arguments);

}  // namespace kernbench::benches
