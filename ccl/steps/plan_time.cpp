#include "ccl/steps/plan_time.h"

#include <algorithm>
#include <utility>

#include "ccl/core/config_rules.h"
#include "ccl/core/spanning_tree.h"
#include "ccl/steps/cut_sizes.h"
#include "ccl/steps/eager_slots.h"
#include "ccl/steps/link_shares.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/launcher.h"
#include "sim_engine/components/math_timing.h"
#include "sim_engine/components/routing.h"

namespace kernbench::ccl {

namespace {

constexpr Bytes kNewsBytes = 16;

struct LaneCut {
  Bytes first = 0;  // bytes of the first slice
  std::int64_t slices = 1;
  bool has_slots = false;
};

LaneCut cut_lane(const PlanWalk& walk, const GroupNetwork& network, const Moved& moved, Bytes least,
                 bool has_slots) {
  const CutSizes sizes = find_cut_sizes(walk.plan, {.topology = network.topology,
                                                    .dtype = DType::u8,
                                                    .count = moved.bytes,
                                                    .lanes = moved.lanes,
                                                    .kept = moved.cubes == 1 ? walk.kept : 0,
                                                    .cubes = moved.cubes,
                                                    .are_pes = walk.are_pes,
                                                    .slot = has_slots ? network.ipcq.slot_bytes : 0,
                                                    .least = least});
  const Bytes of_lane = sim::ceil_divide(moved.bytes, Bytes{moved.lanes});
  const Bytes first = std::min(of_lane, sizes.most);
  return {first, sim::ceil_divide(of_lane, std::max(first, Bytes{1})), has_slots};
}

// A lane is cut as PlannedCall::prepare() cuts it.
LaneCut cut_lane(const PlanWalk& walk, const GroupNetwork& network, const Moved& moved) {
  const Plan& plan = walk.plan;
  const int depth = network.ipcq.depth;
  const Bytes least = least_slice_of(network.ipcq.slot_bytes);
  LaneCut cut = cut_lane(walk, network, moved, least, walk.uses_slots);
  if (!cut.has_slots || slots_suffice(plan, cut.slices, plan.channels, depth)) return cut;
  if (plan.burst() <= depth * plan.channels) {
    const Bytes larger = std::max(least, least_slice_without_slots(network.topology, plan));
    cut = cut_lane(walk, network, moved, larger, true);
  }
  cut.has_slots = slots_suffice(plan, cut.slices, plan.channels, depth);
  if (cut.slices <= plan.slices_at_once) return cut;
  return cut_lane(walk, network, moved, least, cut.has_slots);
}

sim::Path path_of(const Topology& topology, sim::Endpoint::Kind kind, const sim::PeLocation& from,
                  const sim::PeLocation& to) {
  return sim::Routing(topology).route({kind, from}, {sim::Endpoint::Kind::tcm, to});
}

// The way between PEs of a cube.
sim::Path way_in_cube(const Topology& topology) {
  return path_of(topology, sim::Endpoint::Kind::tcm, {0, 0, 0},
                 {0, 0, topology.pe_count() > 1 ? 1 : 0});
}

}  // namespace

GroupNetwork make_group_network(const Topology& topology, const Config& config, bool are_pes) {
  const Topology::Pe& pe = topology.pe;
  const Time unit = pe.scheduler_dispatch + pe.dma_setup;
  const bool are_sips = !are_pes && topology.system.sip_count > 1;
  const sim::Grid cubes = sim::cube_grid(topology);
  const int root = root_of(cubes, cubes.count(), config.root());
  const int next_cube = cubes.count() == 1 ? 0 : cubes.w > 1 ? 1 : cubes.w;
  const auto way_of = [&](int cube) {
    return are_sips ? way_between_neighbours(topology, cube) : way_in_cube(topology);
  };
  const sim::Path way = way_of(0);
  const sim::Path memory = path_of(topology, sim::Endpoint::Kind::hbm, {0, 0, 0}, {0, 0, 0});
  const sim::Path inside =
      path_of(topology, sim::Endpoint::Kind::tcm, {0, 0, 0}, {0, next_cube, 0});
  std::vector<Time> latency;
  for (int cube = 0; cube < (are_sips ? cubes.count() : 1); ++cube) {
    const Time of_cube = way_of(cube).latency;
    latency.push_back(latency.empty() ? of_cube : std::max(latency.back(), of_cube));
  }
  std::vector<Time> launch;
  for (int cube = 0; cube < cubes.count(); ++cube) {
    launch.push_back(sim::launch_time(topology, cube + 1, topology.pe_count()));
  }
  return {topology,
          config.ipcq(),
          config.eager_bytes(),
          config.root(),
          {.latency = std::move(latency),
           .root_latency = way_of(root).latency,
           .launch = std::move(launch),
           .commands = 2 * (unit + pe.ipcq_latency) + 2 * pe.tcm.latency + 3 * pe.cpu_issue,
           .slowest = way.bottleneck,
           .memory = memory.latency + unit + pe.mmu_latency + pe.cpu_issue,
           .memory_port = memory.bottleneck,
           .cube = inside.latency,
           .slowest_inside = inside.bottleneck}};
}

namespace {

// Sums and copies that cubes of a member exchange before and after its messages: the chunks of all
// lanes follow each other over the tree.
Time time_inside(const PlanWalk& walk, const GroupNetwork& network, Bytes first,
                 const Moved& moved) {
  if (moved.cubes == 1) return Time{0};
  const NetworkCosts& costs = network.costs;
  const int depth = grid_tree_depth(sim::cube_grid(network.topology), moved.cubes, network.root);
  const Bytes message = first / walk.plan.chunk_count;
  const Time one_way =
      depth * (costs.cube + costs.commands + transfer_time(message, costs.slowest_inside)) +
      transfer_time(moved.bytes - message, network.topology.sip.ucie.bandwidth);
  return (moved.has_sums ? 2 : 1) * one_way;
}

// A switch that adds up passes messages on without its core.
Time time_of_sums(const Topology::System& system, Bytes bytes) {
  const LinkSpec& sums = *system.network_switch.sums;
  return sums.latency + transfer_time(bytes, sums.bandwidth) - system.network_switch.core.latency;
}

// The time of so many PEs, of as few cubes as have them.
Time of_cubes(const std::vector<Time>& by_cubes, const Topology& topology, int pes) {
  const auto cubes = static_cast<std::size_t>(sim::ceil_divide(pes, topology.pe_count()));
  return by_cubes[std::min(std::max<std::size_t>(cubes, 1), by_cubes.size()) - 1];
}

// The latency of a message of the lane that has the longest way.
Time latency_of(const GroupNetwork& network, const Moved& moved) {
  const NetworkCosts& costs = network.costs;
  if (moved.cubes > 1) return costs.root_latency;
  return of_cubes(costs.latency, network.topology, moved.lanes);
}

// The time of what members exchange.
Time time_between(const PlanWalk& walk, const GroupNetwork& network, const Protocol* protocol,
                  Bytes first, const Moved& moved) {
  if (walk.eager.steps == 0) return Time{0};
  const NetworkCosts& costs = network.costs;
  const auto carry = [&](std::int64_t chunks, Bytes bytes) {
    const Bytes shared = bytes * chunks / (PlanWalk::kChunk * walk.plan.chunk_count);
    const Bytes wire = protocol == nullptr ? shared : protocol->params().on_the_wire(shared);
    return transfer_time(wire, costs.slowest);
  };
  const Time latency = latency_of(network, moved);
  const Time hop = protocol == nullptr || walk.are_pes ? Time{0} : protocol->hop;
  const Time overhead = protocol == nullptr ? Time{0} : protocol->latency + hop;
  const Time step = latency + costs.commands + overhead;
  // A lane's slices begin in turn.
  const Bytes of_lane = sim::ceil_divide(moved.bytes, Bytes{moved.lanes});
  const std::int64_t turns =
      (sim::ceil_divide(of_lane, std::max(first, Bytes{1})) - 1) / walk.plan.slices_at_once;
  const Bytes message = first * walk.plan.most_chunks() / walk.plan.chunk_count;
  const bool is_eager = protocol == nullptr && message <= network.eager_bytes &&
                        walk.most_of_pair <= EagerSlots::kDepth;
  const Chain& longest = is_eager ? walk.eager : walk.posted;
  const int steps = longest.steps;
  const int news = longest.news;
  const Time of_news = latency + transfer_time(kNewsBytes, costs.slowest);
  const Time chain = steps * step + news * of_news +
                     longest.further * (network.topology.system.sip_link.latency + hop) +
                     longest.extra;
  const Time idle = step + (steps - 1) * step * walk.idle_times / std::max(walk.times, 1) +
                    std::min(news, 1) * of_news;
  const Time begin_of_last = turns * slice_interval(walk.plan) * step;
  // The first slices of all lanes set out together, so links that stand idle in some times of the
  // plan wait for them: other lanes' messages fill half of that.
  const Bytes of_first_slices = std::min(first * moved.lanes, moved.bytes);
  const Time waiting =
      is_piped(walk.plan) ? Time{0} : carry(walk.fill - walk.load, of_first_slices) / 2;
  return std::max(
      chain + begin_of_last + carry(walk.fill, first) + carry(walk.last, moved.bytes - first),
      idle + carry(walk.load, moved.bytes) + waiting);
}

// The time in which a PE adds values to others, as f32.
Time time_of_adding(const Topology::Pe& pe, Bytes bytes) {
  if (bytes == 0) return Time{0};
  const std::int64_t cycles =
      sim::math_cycles(pe, sim::MathOp::add, sim::ceil_divide(bytes, size_of(DType::f32)));
  return std::max(cycles_time(cycles, pe.math_clock),
                  transfer_time(2 * bytes, pe.tcm.compute_bandwidth));
}

}  // namespace

PlanTime plan_time(const PlanWalk& walk, const GroupNetwork& network, const Protocol* protocol,
                   const Moved& moved) {
  const Plan& plan = walk.plan;
  const LaneCut cut = cut_lane(walk, network, moved);
  const Bytes in_memory = walk.are_pes ? moved.bytes : cut.first;
  const auto of_block = [&](Bytes bytes, std::int64_t chunks) {
    return bytes * chunks / (PlanWalk::kChunk * plan.chunk_count);
  };
  const Time one_by_one =
      time_between(walk, network, protocol, cut.first, moved) +
      2 * (network.costs.memory + transfer_time(in_memory, network.costs.memory_port));
  const Time in_hbm = transfer_time(of_block(moved.bytes, walk.memory),
                                    find_hbm_rate(network.topology, moved.lanes));
  const Bytes of_lane = sim::ceil_divide(moved.bytes, Bytes{moved.lanes});
  const Time adding = time_of_adding(network.topology.pe, of_block(of_lane, walk.added));
  Time time = std::max({one_by_one, in_hbm, adding}) + time_inside(walk, network, cut.first, moved);
  if (walk.passes_sums) time += time_of_sums(network.topology.system, moved.bytes);
  return {time, one_by_one};
}

Time launch_time(const GroupNetwork& network, int pes) {
  return of_cubes(network.costs.launch, network.topology, pes);
}

}  // namespace kernbench::ccl
