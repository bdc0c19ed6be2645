#include "benches/tensor_parallel/step_result.h"

#include <algorithm>

#include "benches/bench/inputs.h"
#include "benches/bench/peak_flops.h"
#include "benches/collectives/bus_bandwidth.h"
#include "benches/collectives/measured_collective.h"
#include "ccl/core/lower_bound.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::tensor_parallel {

namespace {

constexpr double kBackwardOverForward = 2;

Bytes block_bytes(const runtime::FlightEvent& event) {
  return event.shape.numel() * size_of(event.dtype);
}

Bytes size_of_collective(const runtime::FlightEvent& event, int world_size) {
  return block_bytes(event) * collectives::spec_of(collectives::find_collective(event.function))
                                  .blocks_in_size(world_size);
}

void add(std::vector<CollectiveUse>& uses, const runtime::FlightEvent& event, int world_size) {
  const Bytes size = size_of_collective(event, world_size);
  // A group of one whose output is already its input runs no algorithm.
  const std::string_view algorithm = event.algorithm.empty() ? "none" : event.algorithm;
  auto use = std::ranges::find_if(uses, [&](const CollectiveUse& known) {
    return known.function == event.function && known.algorithm == algorithm && known.size == size;
  });
  if (use == uses.end()) {
    uses.push_back({std::string(event.function), std::string(algorithm), size, 0, Time{0}});
    use = std::prev(uses.end());
  }
  ++use->count;
  use->time += event.completed - event.started;
}

void add_bound(StepResult& result, const Topology& topology, const RankStep& slowest,
               double forward_flops) {
  Time forward{0};
  Time backward{0};
  for (std::size_t i = 0; i < slowest.collectives.size(); ++i) {
    const runtime::FlightEvent& event = slowest.collectives[i];
    (i < slowest.forward_collectives ? forward : backward) += ccl::collective_lower_bound(
        topology, collectives::to_collective_kind(collectives::find_collective(event.function)),
        block_bytes(event));
  }
  if (result.peak_tflops) {
    const double ps = forward_flops / result.world_size / *result.peak_tflops;
    forward += Time{static_cast<std::int64_t>(ps)};
    backward = std::max(backward, Time{static_cast<std::int64_t>(kBackwardOverForward * ps)});
  }
  KB_CHECK(result.forward >= forward, "forward took {}, less than the lower bound of {}",
           to_string(result.forward), to_string(forward));
  KB_CHECK(result.backward >= backward, "backward took {}, less than the lower bound of {}",
           to_string(result.backward), to_string(backward));
  result.bound = forward + backward;
}

Row step_row(const StepResult& result) {
  const Time step = result.step();
  Row row;
  row.set("table", "step")
      .set("tp", result.world_size)
      .set("world_size", result.world_size)
      .set("system", result.system)
      .set("pes", result.pes)
      .set("sip_pes", result.sip_pes)
      .set("forward_ns", to_ns(result.forward))
      .set("backward_ns", to_ns(result.backward))
      .set("step_ns", to_ns(step))
      .set("compute_ns", to_ns(result.activity.computing))
      .set("communication_ns", to_ns(result.activity.communicating))
      .set("exposed_ns", to_ns(result.activity.exposed()))
      .set("idle_ns", to_ns(step - result.activity.busy()))
      .set("flops", result.flops)
      .set("tflops_per_sip", result.tflops_per_device())
      .set("utilization_of_pes",
           result.peak_tflops ? std::optional(result.tflops_per_device() / *result.peak_tflops)
                              : std::nullopt)
      .set("bound_ns", to_ns(result.bound));
  const auto& check = result.check;
  row.set("wrong", check ? std::optional(check->wrong) : std::nullopt)
      .set("unequal", check ? std::optional(check->unequal) : std::nullopt)
      .set("checked", check ? std::optional(check->checked) : std::nullopt)
      .set("worst_error", check ? std::optional(check->worst) : std::nullopt)
      .set("error", check ? std::optional(check->error) : std::nullopt)
      .set("error_bound", check ? std::optional(check->bound) : std::nullopt);
  return row;
}

Row collective_row(const StepResult& result, const CollectiveUse& use) {
  // With one rank the collective stays inside the device and crosses no link.
  std::optional<double> busbw;
  if (result.world_size > 1) {
    busbw = collectives::spec_of(collectives::find_collective(use.function))
                .factor.of(result.world_size) *
            collectives::algbw_gbs(use.size * use.count, use.time);
  }
  return Row()
      .set("table", "collective")
      .set("tp", result.world_size)
      .set("world_size", result.world_size)
      .set("system", result.system)
      .set("collective", use.function)
      .set("algorithm", use.algorithm)
      .set("size_bytes", use.size)
      .set("count", use.count)
      .set("time_ns", to_ns(use.time))
      .set("busbw_gbs", busbw);
}

}  // namespace

double StepResult::tflops_per_device() const {
  return flops / world_size / to_ns(step()) / 1e3;
}

StepResult summarize(const Topology& topology, std::span<const RankStep> ranks,
                     double forward_flops, int pes) {
  const RankStep& slowest = *std::ranges::max_element(ranks, {}, &RankStep::step);
  const std::optional<double> peak = peak_flops(topology, pes);
  StepResult result{.world_size = static_cast<int>(ranks.size()),
                    .system = describe(topology),
                    .pes = pes,
                    .sip_pes = pes_of_sip(topology),
                    .forward = slowest.forward(),
                    .backward = slowest.backward(),
                    .activity = slowest.activity,
                    .collectives = {},
                    .flops = (1 + kBackwardOverForward) * forward_flops,
                    .peak_tflops = peak ? std::optional(*peak / 1e12) : std::nullopt,
                    .bound = {},
                    .check = {}};
  for (const runtime::FlightEvent& event : slowest.collectives) {
    add(result.collectives, event, result.world_size);
  }
  add_bound(result, topology, slowest, forward_flops);
  return result;
}

std::vector<Row> to_rows(const StepResult& result) {
  std::vector<Row> rows = {step_row(result)};
  for (const CollectiveUse& use : result.collectives) rows.push_back(collective_row(result, use));
  return rows;
}

}  // namespace kernbench::benches::tensor_parallel
