// The instants of a training step, from which its times follow (ADR-0222).

#pragma once

#include <memory>

#include "runtime/parallel/logging_data.h"
#include "runtime/simulation/results.h"
#include "sim_engine/base/units.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

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
