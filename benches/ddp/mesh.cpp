#include "benches/ddp/mesh.h"

#include <optional>
#include <string>

#include "benches/bench/inputs.h"
#include "benches/collectives/bus_bandwidth.h"
#include "benches/train/parallel_language_model.h"
#include "runtime/distributed/group.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "tp/parallel_state.h"

namespace kernbench::benches::ddp {

namespace {

// The bytes that a rank sends at least of a collective of so many ranks.
double bytes_to_send(const runtime::FlightEvent& event, int ranks) {
  const collectives::CollectiveSpec& spec =
      collectives::spec_of(collectives::find_collective(event.function));
  const auto block = static_cast<double>(event.shape.numel() * size_of(event.dtype));
  return block * spec.blocks_in_size(ranks) * spec.factor.of(ranks);
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

void MeshMeter::begin() {
  began_ = torch_.engine().now();
  tp_.before = activity_of(tp_);
  dp_.before = activity_of(dp_);
}

AxisUse MeshMeter::use_of(const Axis& axis) const {
  const runtime::DeviceActivity did = activity_of(axis) - axis.before;
  AxisUse use{.communicating = did.communicating, .exposed = did.exposed()};
  const auto all = simulation_of(torch_).flight_recorder().events(torch_.distributed.get_rank());
  int in_step = 0;
  double bytes = 0;
  for (const runtime::FlightEvent& event : all) {
    if (event.issued < began_ || !event.has_tensor) continue;
    ++in_step;
    if (event.group != axis.group) continue;
    ++use.collectives;
    bytes += bytes_to_send(event, axis.ranks);
  }
  KB_CHECK(static_cast<std::size_t>(in_step) < runtime::FlightRecorder::kCapacity,
           "a step of {} collectives or more", in_step);
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
  const GemmSpec& array = topology.pe.gemm;
  if (array.clock.is_unlimited()) return std::nullopt;
  const double peak = 2.0 * array.rows * array.columns *
                      static_cast<double>(array.clock.per_second) * pes_of_sip(topology);
  return flops / (to_ns(step) * 1e-9) / peak;
}

Row mesh_row(Row row, const MeasuredStep& measured, const Topology& topology) {
  const Time step = measured.later.end - measured.later.begin;
  row.set("step_ns", to_ns(step)).set("flops", measured.flops);
  row.set("mfu", compute_mfu(measured.flops, step, topology));
  set_axis(row, "tp", measured.mesh.tp);
  set_axis(row, "dp", measured.mesh.dp);
  return row;
}

}  // namespace kernbench::benches::ddp
