#pragma once

#include <span>

#include "benches/bench/bench_run.h"
#include "benches/bench/console.h"

namespace kernbench::benches::variants {

// Runs beside a run: they are interrupted with it, print nothing, and are no part of its results.
class Reruns {
 public:
  // `known`: points that are taken over.  `team` shares the points of sweeps; null: this process
  // alone.
  explicit Reruns(BenchRun& whole, std::span<const FinishedPoint> known = {},
                  ProcessTeam* team = nullptr);

  Bench& bench() { return bench_; }

 private:
  Console silent_ = Console::silent();
  BenchRun run_;
  Bench bench_{run_};
};

}  // namespace kernbench::benches::variants
