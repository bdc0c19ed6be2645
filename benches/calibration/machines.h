// Machines with published times: the rows that a calibration compares.

#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/collectives/measured_collective.h"
#include "benches/collectives/published_times.h"
#include "benches/variants/variants.h"

namespace kernbench::benches::calibration {

struct Machine {
  Machine(std::string its_topology, std::string its_file, const variants::VariantRequest& request);

  std::string topology;  // the name of a shipped one, or a file
  std::string file;      // of the published times
  variants::VariantMaker maker;
  variants::Variant as_given;
  collectives::MeasuredInput input;
};

struct CalibratedRow {
  std::size_t machine = 0;
  collectives::PublishedTime published;

  // "all_gather of 16384 B, 7.94 us, of a.csv"; unique.
  std::string name_in(const std::string& file) const;
};

// The command line's part.
struct CalibrationInputs {
  std::vector<std::string> machines;  // "MACHINE=FILE.csv"
  std::string ccl = {};
  std::vector<std::string> assignments = {};  // of --set, for all machines
};

struct Calibration {
  std::deque<Machine> machines = {};  // a maker's keys must not move
  std::vector<CalibratedRow> rows = {};
  std::string ccl = {};  // of --ccl; empty: each machine has its own

  std::string inputs() const;  // the texts of all files
};

// Throws UsageError KB-U001 for a machine without a file, KB-U016 if --set gives several values to
// a key, and what the files' readers throw.
Calibration read_calibration(const BenchInfo& info, const CalibrationInputs& inputs);

}  // namespace kernbench::benches::calibration
