// A training step of pipelines side by side, by hand: kernels that take given times, send and recv
// between the stages, and an all_reduce of each stage's gradients over the pipelines.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benches/bench/bench.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::stragglers {

enum class Pass : std::uint8_t { forward, backward };

// How long each microbatch takes in each pass on each worker.  Workers are ranks: pipeline p's
// stage s is rank p * stages + s.
class PassTimes {
 public:
  PassTimes(int pipelines, int stages, int microbatches);

  int pipelines() const { return pipelines_; }
  int stages() const { return stages_; }
  int workers() const { return pipelines_ * stages_; }
  int microbatches() const { return microbatches_; }
  Time& at(int worker, Pass pass, int microbatch) {
    return times_[index(worker, pass, microbatch)];
  }
  Time at(int worker, Pass pass, int microbatch) const {
    return times_[index(worker, pass, microbatch)];
  }
  Time sum(int worker) const;
  // The mean over all workers and microbatches.
  Time mean(Pass pass) const;

 private:
  std::size_t index(int worker, Pass pass, int microbatch) const {
    return static_cast<std::size_t>((worker * 2 + static_cast<int>(pass)) * microbatches_ +
                                    microbatch);
  }

  int pipelines_;
  int stages_;
  int microbatches_;
  std::vector<Time> times_;
};

// The machine of a pipeline: links between SIPs in a ring take time, and a cycle of 1 ns of the one
// PE of each.
Topology pipeline_machine(int workers);

// All microbatches go forward, then all backward.  Times are whole nanoseconds.
Time pipeline_time(PointContext& point, const PassTimes& times, const Topology& machine);

}  // namespace kernbench::benches::stragglers
