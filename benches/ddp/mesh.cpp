#include "benches/ddp/mesh.h"

#include <optional>
#include <string>
#include <string_view>

#include "benches/bench/inputs.h"
#include "benches/bench/peak_flops.h"
#include "benches/collectives/bus_bandwidth.h"
#include "benches/train/parallel_language_model.h"
#include "runtime/distributed/group.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"
#include "tp/parallel_state.h"

namespace kernbench::benches::ddp {

namespace {

// Returns the bytes that one of `ranks` ranks sends at least in calls of a function whose blocks
// have so many together.
double bytes_to_send(std::string_view function, Bytes blocks, int ranks) {
  if (ranks == 1) return 0;  // there is nobody, though a broadcast's factor is 1
  const collectives::CollectiveSpec& spec =
      collectives::spec_of(collectives::find_collective(function));
  return static_cast<double>(blocks) * spec.blocks_in_size(ranks) * spec.factor.of(ranks);
}

void set_axis(Row& row, const std::string& name, const AxisUse& use) {
  row.set(name + "_ns", to_ns(use.communicating))
      .set(name + "_exposed_ns", to_ns(use.exposed))
      .set(name + "_bytes", static_cast<double>(use.bytes))
      .set(name + "_collectives", use.collectives);
}

}  // namespace

MeshMeter::MeshMeter(RuntimeContext& torch)
    : torch_(torch),
      tp_(make_axis(tp::get_tensor_model_parallel_group(torch))),
      dp_(make_axis(tp::get_data_parallel_group(torch))) {}

MeshMeter::Axis MeshMeter::make_axis(const distributed::ProcessGroup& group) const {
  return {group.group()->number, torch_.distributed.get_world_size(group)};
}

runtime::DeviceActivity MeshMeter::activity_of(const Axis& axis) const {
  return simulation_of(torch_).activity().of_group(torch_.ahbm.current_device(), axis.group);
}

distributed::CalledCollectives::ByFunction MeshMeter::called_in(const Axis& axis) const {
  auto& called = simulation_of(torch_).attachments().get<distributed::CalledCollectives>();
  return called.in_group(torch_.distributed.get_rank(), axis.group);
}

void MeshMeter::begin(Axis& axis) const {
  axis.before = activity_of(axis);
  axis.called_before = called_in(axis);
}

void MeshMeter::begin() {
  begin(tp_);
  begin(dp_);
}

AxisUse MeshMeter::use_of(const Axis& axis) const {
  const runtime::DeviceActivity did = activity_of(axis) - axis.before;
  AxisUse use{.communicating = did.communicating, .exposed = did.exposed()};
  double bytes = 0;
  for (const auto& [function, sum] : called_in(axis)) {
    const auto before = axis.called_before.find(function);
    const bool is_new = before == axis.called_before.end();
    use.collectives += static_cast<int>(sum.calls - (is_new ? 0 : before->second.calls));
    bytes += bytes_to_send(function, sum.bytes - (is_new ? 0 : before->second.bytes), axis.ranks);
  }
  use.bytes = static_cast<Bytes>(bytes);
  return use;
}

MeshUse MeshMeter::end() const {
  return {use_of(tp_), use_of(dp_)};
}

void check_mesh(const StepInput& input) {
  if (!input.is_mesh) {
    if (!input.parallel.sequence_parallel) return;
    throw UsageError("KB-U012",
                     "--set sequence_parallel=true: tensor parallel ranks share a sequence; "
                     "--set tp=2 or more");
  }
  if (input.world % input.tp != 0) {
    throw UsageError("KB-U012", "--set tp={}: it does not divide the {} ranks of world", input.tp,
                     input.world);
  }
  if (input.scheme == Scheme::fsdp2) {
    throw UsageError("KB-U012",
                     "--set scheme=fsdp2 tp={}: a mesh has scheme=zero1 or scheme=ddp over its "
                     "data parallel ranks",
                     input.tp);
  }
  train::check_shares("ddp", input.size, input.tp, input.parallel);
}

std::optional<double> compute_mfu(double flops, Time step, const Topology& topology) {
  const std::optional<double> peak = peak_flops(topology, pes_of_sip(topology));
  if (!peak || step.count() == 0) return std::nullopt;
  return flops / (to_ns(step) * 1e-9) / *peak;
}

Row mesh_row(Row row, const MeasuredStep& measured, const Topology& topology) {
  const Time step = measured.later.end - measured.later.begin;
  // The step's own row has step_ns, which sums over rows would count twice.
  row.set("mesh_step_ns", to_ns(step)).set("flops", measured.flops);
  row.set("mfu", compute_mfu(measured.flops, step, topology));
  set_axis(row, "tp", measured.mesh.tp);
  set_axis(row, "dp", measured.mesh.dp);
  return row;
}

}  // namespace kernbench::benches::ddp
