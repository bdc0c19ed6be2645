#pragma once

#include <string>

#include "benches/bench/report.h"
#include "benches/cli/cli.h"
#include "benches/cli/perform.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::benches::cli {

// The HTML page of a simulation of the run; empty if none is asked for.  `point` says which of
// several it is.
std::string make_page(const RunArguments& arguments, const Report& report, const Work& work,
                      const runtime::Simulation& simulation, const std::string& point);

}  // namespace kernbench::benches::cli
