#include "benches/operators/measurement.h"

#include <set>
#include <span>

#include "benches/operators/least_bytes.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::operators {

namespace {

// The rate of the HBM slices that belong to the PEs; 0: unlimited.
Wide hbm_bytes_per_s(const Topology& topology, const std::vector<sim::PeLocation>& pes) {
  const Bandwidth slice = sim::Routing::hbm_slice(topology).bandwidth;
  if (slice.is_unlimited()) return 0;
  std::set<std::pair<int, int>> slices;
  for (const sim::PeLocation& pe : pes) {
    slices.emplace(pe.cube, sim::Routing::hbm_slice_of(topology, pe.pe));
  }
  return Wide{slice.per_second} * static_cast<int>(slices.size());
}

Time compute_roofline(const Topology& topology, const OperatorRun& run, Direction direction) {
  const Wide rate = hbm_bytes_per_s(topology, run.pes());
  if (rate == 0) return Time{0};
  Wide bytes = 0;
  for (const TokenShare& share : run.shares()) {
    bytes += least_bytes(run.definition(), direction, share.count);
  }
  return Time{static_cast<std::int64_t>(bytes * kPicosecondsPerSecond / rate)};
}

}  // namespace

double Measured::share_of_roofline() const {
  return to_ns(roofline) / to_ns(time);
}

MeasuredBoth measure(RuntimeContext& torch, const Definition& definition,
                     const ProviderInfo& provider) {
  const std::vector<Tensor> inputs = make_inputs(torch, definition);
  OperatorRun run(torch, definition, inputs);
  const std::unique_ptr<Provider> computes = make_provider(provider, run);
  MeasuredBoth measured;
  for (const Direction direction : directions_of(definition)) {
    const OperatorRun::Work before = run.work();
    const Time start = torch.engine().now();
    compute(torch, *computes, provider, definition, direction);
    const Time took = torch.engine().now() - start;
    profiler::timed(torch, name_of(direction), start, start + took);
    const OperatorRun::Work& after = run.work();
    Measured& one = measured[static_cast<std::size_t>(direction)];
    one = {.time = took,
           .in_kernels = after.in_kernels - before.in_kernels,
           .roofline = compute_roofline(torch.topology(), run, direction),
           .kernels = after.kernels - before.kernels,
           .bytes = after.loaded + after.stored - before.loaded - before.stored,
           .energy = runtime::measure_energy(simulation_of(torch))};
    for (const Measured& earlier : std::span(measured.data(), &one)) one.energy -= earlier.energy;
  }
  return measured;
}

}  // namespace kernbench::benches::operators
