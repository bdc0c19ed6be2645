// Where a step's slowdown comes from: the step is simulated again with a part of its faults.
//
//   S     the time with all faults over the time without any
//   S_t   the same where only faults of computing, or of links, are left
//   S_w   where only those of one worker are
//   M_w   the share of what all faults add that goes away when that worker has none
//
// (Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI
// 2025, arXiv 2505.05713, who replay traces; here each time is simulated.)

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/faults/fault.h"

namespace kernbench::benches::stragglers {

// Simulates a step with these faults.
using StepWith = std::function<Time(const std::vector<Fault>& faults)>;

struct Attribution {
  Time actual{0};
  Time ideal{0};
  Time computing_alone{0};  // with the faults of computing alone
  Time links_alone{0};
  int worst = 0;        // the worker whose faults alone slow the step down most
  Time worst_alone{0};  // with that worker's
  Time without_worst{0};

  double slowdown(Time time) const;  // S of that time; 1 where nothing takes time
  double removed_share() const;      // M_w; 0 if nothing is slower
};

// A fault's worker: its rank, or the SIP that its link or PE is of.  REQUIRES: it has one
int worker_of(const Fault& fault);

// Throws UsageError KB-U012 for faults that leave no time to compare: what is lost, or dies.
void check_take_time(const std::vector<Fault>& faults);

// Noise of all ranks becomes that of each.
std::vector<Fault> by_worker(const std::vector<Fault>& faults, int workers);

// REQUIRES: check_take_time() and by_worker()
Attribution attribute(const std::vector<Fault>& faults, const StepWith& simulate);

}  // namespace kernbench::benches::stragglers
