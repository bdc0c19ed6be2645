#include "benches/evaluation/ccl_evaluation.h"

#include <fmt/format.h>

#include <numeric>

#include "benches/bench/inputs.h"
#include "benches/collectives/measured_collective.h"
#include "ccl/steps/plan_time.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::evaluation {

namespace {

void add(Sweep& sweep, const CclPoint& wanted) {
  sweep.add(fmt::format("{} {} {} {} {}", wanted.topology, wanted.n_elem, name_of(wanted.dtype),
                        name_of(wanted.buffer_kind), name_of(wanted.root)),
            [wanted](PointContext& point) { return simulate(point, wanted); });
}

std::vector<Row> sweep_correctness(Bench& bench) {
  Sweep sweep(bench, "correctness");
  for (const std::string_view topology : kEvaluatedTopologies) {
    for (const DType dtype : kDTypes) add(sweep, {topology, 1'019, dtype});  // a prime
  }
  return sweep.run();
}

std::vector<Row> sweep_latency(Bench& bench, const CclSizes& sizes) {
  Sweep sweep(bench, "latency");
  for (const std::string_view topology : kEvaluatedTopologies) {
    for (const std::int64_t n_elem : sizes.latency) add(sweep, {topology, n_elem});
  }
  for (const std::int64_t n_elem : sizes.latency) add(sweep, {kOneDevice, n_elem});
  return sweep.run();
}

std::vector<Row> sweep_buffer_kinds(Bench& bench, const CclSizes& sizes) {
  Sweep sweep(bench, "buffer_kinds");
  for (const sim::BufferKind kind : sim::kBufferKinds) {
    for (const std::int64_t n_elem : sizes.buffer_kinds) {
      add(sweep, {kBufferKindTopology, n_elem, DType::f16, kind});
    }
  }
  return sweep.run();
}

std::vector<Row> sweep_roots(Bench& bench, const CclSizes& sizes) {
  Sweep sweep(bench, "roots");
  std::vector<std::string_view> topologies(kEvaluatedTopologies.begin(),
                                           kEvaluatedTopologies.end());
  topologies.push_back(kOriginalTopology);
  for (const std::string_view topology : topologies) {
    for (const ccl::Root root : ccl::kRoots) {
      add(sweep, {topology, sizes.latency.back(), DType::f16, sim::BufferKind::tcm, root});
    }
  }
  return sweep.run();
}

Topology make_topology(const CclPoint& wanted) {
  if (wanted.topology != kOneDevice) return load_topology(std::string(wanted.topology));
  Topology topology = load_topology("ring_1d_6");
  topology.system.sip_count = topology.system.w = 1;
  return topology;
}

ccl::Config load_ccl_file(const Bench& bench, const CclPoint& wanted) {
  if (wanted.topology == kOriginalTopology) return load_ccl(std::string(kOriginalTopology));
  // With the default depth only small tensors go through queues; with this one all do (ADR-0173).
  const ccl::Config config = wanted.topology == kBufferKindTopology
                                 ? ccl::Config::parse("defaults: {depth: 8}", "ccl.yaml")
                                 : bench.ccl();
  return config.names_all_reduce() ? config : config.with_algorithm(kEvaluatedAlgorithm);
}

ccl::Config make_config(const Bench& bench, const CclPoint& wanted) {
  return load_ccl_file(bench, wanted).with_buffer_kind(wanted.buffer_kind).with_root(wanted.root);
}

}  // namespace

std::optional<Time> time_on_links(const Topology& topology, const ccl::Config& config,
                                  const ccl::Algorithm& algorithm, Bytes bytes) {
  if (algorithm.plan == nullptr) return std::nullopt;
  std::vector<int> sips(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(sips.begin(), sips.end(), 0);
  const ccl::GroupShape shape = ccl::shape_of_sips(topology, sips);
  ccl::GroupNetwork network = ccl::make_group_network(topology, config, false);
  network.costs.commands = network.costs.memory = Time{0};
  network.costs.memory_port = {};
  network.topology.cube.hbm.bandwidth = network.topology.pe.tcm.compute_bandwidth = {};
  network.topology.pe.math_clock = {};
  const ccl::PlanWalk walk =
      ccl::walk_plan(algorithm, distributed::CollectiveKind::all_reduce, topology, shape, sips);
  const ccl::Moved moved{.bytes = bytes,
                         .lanes = topology.pe_count(),
                         .cubes = sim::cube_grid(topology).count(),
                         .has_sums = true};
  return ccl::plan_time(walk, network, nullptr, moved).time;
}

Row simulate(PointContext& point, const CclPoint& wanted) {
  const ccl::Config config = make_config(point.bench(), wanted);
  const Topology topology = make_topology(wanted);
  const auto torch = point.make_context(topology, {.ccl = config});
  collectives::MeasuredInput input = collectives::input_for(config, topology);
  input.blocks.count = wanted.n_elem;
  input.blocks.dtype = wanted.dtype;
  input.blocks.seed = point.bench().seed();
  const collectives::Measurement measured = collectives::measure(*torch, input);
  KB_CHECK(measured.critical >= measured.lower_bound,
           "{} elements on {} took {}, less than the "
           "bound of {}",
           wanted.n_elem, wanted.topology, to_string(measured.critical),
           to_string(*measured.lower_bound));
  point.check(measured.wrong == 0);
  const ccl::Algorithm& algorithm = *ccl::find_algorithm(measured.algorithm.value());
  const std::optional<Time> theory =
      time_on_links(topology, config, algorithm, input.blocks.bytes());
  return Row()
      .set("topology", wanted.topology)
      .set("algorithm", measured.algorithm)
      .set("n_elem", wanted.n_elem)
      .set("dtype", name_of(wanted.dtype))
      .set("bytes", input.blocks.bytes())
      .set("buffer_kind", name_of(wanted.buffer_kind))
      .set("root", name_of(wanted.root))
      .set("crit_ns", to_ns(measured.critical))
      .set("joint_ns", to_ns(measured.joint))
      .set("time_ns", to_ns(measured.time))
      .set("theory_ns", theory ? std::optional(to_ns(*theory)) : std::nullopt)
      .set("lower_bound_ns", to_ns(*measured.lower_bound))
      .set("wrong", measured.wrong);
}

CclEvaluation evaluate_ccl(Bench& bench, const CclSizes& sizes) {
  const ccl::Config& config = bench.ccl();
  const bool reduces = config.is_auto() || config.algorithm().collective == "all_reduce";
  const bool on_all_cubes = config.participants() == ccl::Participants::shard_holders;
  if (!reduces || config.world_size() || !on_all_cubes) {
    throw ConfigError(
        "KB-Y043",
        "ccl.yaml: the evaluation is of all_reduce over SIPs; choose such an algorithm, "
        "without world_size and participants");
  }
  return {.correctness = sweep_correctness(bench),
          .latency = sweep_latency(bench, sizes),
          .buffer_kinds = sweep_buffer_kinds(bench, sizes),
          .roots = sweep_roots(bench, sizes)};
}

}  // namespace kernbench::benches::evaluation
