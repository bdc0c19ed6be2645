// What of a step's communication the backward pass has hidden (ADR-0224).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/simulation/device_activity.h"
#include "sim_engine/base/units.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

// A bucket's reduction.  Times are the device's.
struct BucketTimes {
  std::size_t bucket = 0;
  std::vector<std::string> parameters;  // names
  Bytes bytes = 0;
  Time ready{0};    // all gradients are in the bucket
  Time started{0};  // the collective begins
  Time ended{0};
  Time hidden{0};               // of the time between the two, that in which the device ran kernels
  Time exposed{0};              // the rest
  std::string collective = {};  // its name, where a step has several kinds
  std::string name = {};        // as in traces and reports: "bucket 0", "group blocks.0"
};

// A step, from its forward pass on.  Its time is the sum of the four.
struct StepTimes {
  std::int64_t iteration = 0;
  Time begin{0};
  Time end{0};
  Time compute_only{0};
  Time both{0};     // kernels ran beside collectives
  Time exposed{0};  // collectives alone
  Time idle{0};
  std::vector<BucketTimes> buckets;  // in the order of their reduction
};

// A table of the buckets, times in us since the step's begin, and the four shares.
std::string to_string(const StepTimes& step);

// An instant on a device, and what it had done by then.
struct DeviceInstant {
  Time at{0};
  runtime::DeviceActivity activity;
};
// Returns the instant at which the device has done what the caller has launched so far: now, if
// launches block; else it is filled in when it has come.
std::shared_ptr<const DeviceInstant> device_instant(RuntimeContext& torch, int device);

// The instants of a step that torch's Logger keeps, and the times between them.
struct LoggedStep {
  std::shared_ptr<const DeviceInstant> forward_start;
  std::shared_ptr<const DeviceInstant> backward_compute_start;  // the first gradient is there
  std::shared_ptr<const DeviceInstant> backward_comm_start;     // the first bucket is
  std::shared_ptr<const DeviceInstant> backward_compute_end;
  std::shared_ptr<const DeviceInstant> backward_comm_end;  // gradients are reduced and copied back

  bool is_complete() const { return backward_comm_end != nullptr; }
  Time forward_compute() const { return backward_compute_start->at - forward_start->at; }
  Time backward_compute() const { return backward_compute_end->at - backward_compute_start->at; }
  Time backward_comm() const { return backward_comm_end->at - backward_comm_start->at; }
  Time overlap() const { return backward_compute_end->at - backward_comm_start->at; }
};

// Returns a step's times without buckets.
StepTimes step_between(const DeviceInstant& begin, const DeviceInstant& end);

}  // namespace kernbench::nn::parallel
