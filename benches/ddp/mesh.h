// Measures what a mesh of data parallel and tensor parallel ranks communicates along each axis.

#pragma once

#include <optional>

#include "benches/bench/row.h"
#include "benches/ddp/measured_step.h"
#include "runtime/distributed/called_collectives.h"
#include "runtime/distributed/process_group.h"
#include "runtime/simulation/results.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::ddp {

// Measures a step on a rank's device, between two moments at which the device has done all.
class MeshMeter {
 public:
  explicit MeshMeter(RuntimeContext& torch);

  void begin();
  // The bytes are those that the rank has to send at least, by nccl-tests' factors of its bus
  // bandwidth.
  MeshUse end() const;

 private:
  struct Axis {
    int group = 0;  // its number
    int ranks = 1;
    runtime::DeviceActivity before = {};
    distributed::CalledCollectives::ByFunction called_before = {};
  };
  Axis make_axis(const distributed::ProcessGroup& group) const;
  runtime::DeviceActivity activity_of(const Axis& axis) const;
  distributed::CalledCollectives::ByFunction called_in(const Axis& axis) const;
  void begin(Axis& axis) const;
  AxisUse use_of(const Axis& axis) const;

  RuntimeContext& torch_;
  Axis tp_;
  Axis dp_;
};

// Throws UsageError KB-U012 for ranks that tp does not divide, a scheme that has no mesh, and what
// tensor parallel ranks cannot share.
void check_mesh(const StepInput& input);

// The share that the FLOPs of a rank's step have of what the arrays of all PEs of its SIP, each
// with 2 for each cell and cycle, could do in that time; nullopt for arrays without a clock.
std::optional<double> compute_mfu(double flops, Time step, const Topology& topology);

// A row "mesh": step_ns, mfu of the arrays of a SIP, and of each axis the time of its
// communication, what of it nothing hides, bytes and collectives.
Row mesh_row(Row row, const MeasuredStep& measured, const Topology& topology);

}  // namespace kernbench::benches::ddp
