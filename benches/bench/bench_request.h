#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ccl/config.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

class ProcessTeam;

// The request that the command line of `kernbench run` makes.
struct BenchRequest {
  Topology topology;
  ccl::Config ccl;
  bool ccl_is_given = false;  // by --ccl
  std::uint64_t seed = 0;
  bool trace = false;
  std::filesystem::path output_folder = {};  // --out; empty if it is not given
  int jobs = 1;                              // points of a sweep simulated at once
  std::string inputs = {};                   // the texts of all files that were read
  ProcessTeam* team = nullptr;               // shares the points of sweeps; null: none
};

}  // namespace kernbench::benches
