// The report of a run as one page: it opens from disk, needs no network and no scripts, and follows
// the reader's light or dark theme (ADR-0197).

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "benches/bench/row.h"
#include "benches/page/what_if.h"
#include "runtime/profiler/energy.h"
#include "runtime/profiler/profile.h"

namespace kernbench::runtime {
class Simulation;
}

namespace kernbench::benches::page {

// The facts about the run that the page shows and that the simulation does not know.
struct Heading {
  std::string title;                                       // "ccl-allreduce"
  std::vector<std::pair<std::string, std::string>> facts;  // pairs (name, value): command, topology
  std::vector<Row> rows = {};                              // of the bench
  std::vector<ResourceGain> gains = {};  // of `kernbench whatif`, the largest first
  runtime::EnergyUse energy = {};        // of the page's simulation, if it is counted
};

// The page of a simulation that was profiled; under 500 KB, however long the run.
std::string report_page(const Heading& heading, const runtime::Simulation& simulation,
                        runtime::ProfiledTime time);

}  // namespace kernbench::benches::page
