// Collectives of every group of six SIPs: how near to the bound, and to the fastest algorithm.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "benches/collectives/measured_collective.h"
#include "ccl/backend/ahbm_backend.h"
#include "ccl/backend/choice.h"

namespace kernbench::test::group_goals_test {
namespace {

using benches::collectives::MeasuredCollective;
using benches::collectives::MeasuredInput;
using benches::collectives::Measurement;

[[maybe_unused]] const bool kRegistered = ccl::register_ahbm_backend();

constexpr std::array kCollectives = {
    MeasuredCollective::all_reduce,     MeasuredCollective::all_gather,
    MeasuredCollective::reduce_scatter, MeasuredCollective::broadcast,
    MeasuredCollective::reduce,         MeasuredCollective::all_to_all};

using Group = std::vector<int>;

// Returns each `every`-th one of all groups of `fewest` to `most` SIPs of six.
std::vector<Group> groups(std::size_t fewest, std::size_t most, unsigned every) {
  std::vector<Group> all;
  unsigned number = 0;
  for (unsigned mask = 1; mask < 64; ++mask) {
    Group group;
    for (int sip = 0; sip < 6; ++sip) {
      if ((mask >> sip & 1) != 0) group.push_back(sip);
    }
    if (group.size() < fewest || group.size() > most) continue;
    if (number++ % every == 0) all.push_back(group);
  }
  return all;
}

struct Point {
  Topology topology;
  Group group;
  MeasuredCollective collective = MeasuredCollective::all_reduce;
  Bytes bytes = 0;
};

Measurement measure(const Point& point, const ccl::Config& config) {
  MeasuredInput input;
  input.blocks.collective = point.collective;
  input.blocks.ranks = static_cast<int>(point.group.size());
  input.blocks.count = point.bytes / size_of(DType::f32) /
                       spec_of(point.collective).blocks_in_size(input.blocks.ranks);
  input.in_place = !spec_of(point.collective).out_of_place;
  if (point.group.size() < 6) input.members = point.group;
  input.placement = {.cube = Shard::column_wise, .pe = Shard::column_wise};
  RuntimeContext torch(point.topology, {.ccl = config, .data = false});
  return benches::collectives::measure(torch, input);
}

Topology shipped(std::string_view name) {
  return Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name));
}

double ratio(Time a, Time b) {
  return static_cast<double>(a.count()) / static_cast<double>(b.count());
}

// The goals of large messages.  An all_reduce of five SIPs of the torus is 1.39 times its bound, of
// which nobody knows whether it can be reached (ADR-0267).
double goal_of(const std::string& topology, const Group& group, MeasuredCollective collective) {
  if (collective == MeasuredCollective::all_to_all) return 1.2;
  if (collective != MeasuredCollective::all_reduce) return 1.15;
  const bool is_open = topology == "torus_2d_2x3" && group.size() == 5;
  if (is_open) return 1.4;
  return topology == "mesh_2d_no_wrap_2x3" ? 1.3 : 1.1;
}

TEST_CASE("groups that lie anywhere are near their bounds", "[goals][exhaustive]") {
  const std::string name = GENERATE("ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3");
  const Topology topology = shipped(name);
  for (const MeasuredCollective collective : kCollectives) {
    for (const Group& group : groups(2, 6, 1)) {
      const Measurement measured = measure({topology, group, collective, 16 << 20}, {});
      CAPTURE(name, name_of(collective), group, *measured.algorithm);
      CHECK(ratio(measured.time, *measured.lower_bound) <= goal_of(name, group, collective));
    }
  }
}

// A configuration by which a group runs a collective by that algorithm.
ccl::Config by(const Point& point, std::string_view algorithm) {
  return ccl::Config::parse(fmt::format("rules: [{{{}: {{algorithm: {}, ranks: {}}}}}]",
                                        name_of(point.collective), algorithm, point.group.size()));
}

TEST_CASE("what nobody chooses is within 1.3 of the fastest, for any group and size",
          "[goals][exhaustive]") {
  const std::string name = GENERATE("ring_1d_6", "torus_2d_2x3", "torus_2d_3x2",
                                    "mesh_2d_no_wrap_2x3", "default", "zero_overhead");
  const Topology topology = shipped(name);
  for (const Group& group : groups(2, 5, 7)) {
    if (group.back() >= topology.system.sip_count) continue;
    ccl::AlgorithmChoice choice(topology, {}, ccl::shape_of_sips(topology, group), group, "");
    for (const MeasuredCollective collective : kCollectives) {
      for (Bytes bytes = 64; bytes <= 64 << 20; bytes *= 32) {
        const Point point{topology, group, collective, bytes};
        const Measurement chosen = measure(point, {});
        if (chosen.time == Time{0}) continue;  // too few elements for all
        for (const ccl::Candidate& candidate : choice.candidates(kind_of(collective))) {
          const std::string_view other = candidate.algorithm->name;
          if (other == chosen.algorithm) continue;
          CAPTURE(name, group, name_of(collective), bytes, *chosen.algorithm, other);
          CHECK(ratio(chosen.time, measure(point, by(point, other)).time) <= 1.3);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kernbench::test::group_goals_test
