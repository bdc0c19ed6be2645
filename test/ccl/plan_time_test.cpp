// The model of a collective's time: the closed forms where they hold, and how near it comes to the
// simulation elsewhere.

#include "ccl/steps/plan_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "ccl/backend/choice.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/closed_form.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::plan_time_test {
namespace {

using distributed::CollectiveKind;

// Queues that never limit what is measured.
ccl::Config deep(std::string_view algorithm) {
  return ccl::Config::parse(fmt::format(
      "defaults: {{algorithm: {}, depth: 64, buffer_kind: sram, slot: 16 MiB}}", algorithm));
}

// The model's time of the kernels, without their launch.
std::optional<Time> modelled(const Topology& topology, const ccl::Config& config,
                             const ccl::Moved& moved) {
  const std::optional<Time> call =
      ccl::AlgorithmChoice::of_all(topology, config)
          .time_of(config.algorithm(), CollectiveKind::all_reduce, moved);
  if (!call) return call;
  return *call - ccl::launch_time(ccl::make_group_network(topology, config, false), moved.lanes);
}

// Returns how many closed forms there are, each of which is the model's time.
int count_forms(std::string_view algorithm, const std::vector<Topology>& topologies) {
  int known = 0;
  const ccl::Config config = deep(algorithm);
  for (const Topology& topology : topologies) {
    for (const std::int64_t chunk : {1, 8, 64, 1000}) {
      const std::int64_t count = 2 * chunk * topology.system.sip_count;
      const auto form = closed_form({topology, DPPolicy::on_one_pe(), count, DType::f32, config});
      if (!form) continue;
      ++known;
      CAPTURE(algorithm, topology.name, topology.system.w, topology.system.h, count);
      CHECK(modelled(topology, config, {.bytes = 4 * count}) == form);
    }
  }
  return known;
}

TEST_CASE("where all messages have one size the model is the closed form", "[ccl][plan_time]") {
  std::vector<Topology> grids;
  for (const SipTopology kind : kGridTopologies) {
    for (const int p : {1, 2, 3, 4, 5, 8}) grids.push_back(link_topology(kind, p));
    if (kind == SipTopology::ring_1d) continue;
    for (const auto& [w, h] : {std::pair{2, 2}, {2, 3}, {3, 3}, {4, 2}, {4, 4}}) {
      grids.push_back(link_topology(kind, w, h));
    }
  }
  // The model walks over the moves of some members of these alone.
  grids.push_back(link_topology(SipTopology::ring_1d, 128));
  grids.push_back(link_topology(SipTopology::torus_2d, 12, 12));
  for (Topology& topology : grids) topology.sip.io_cpu_dispatch = Time{30'000};
  std::vector<Topology> joined;
  for (const int p : {2, 3, 8, 16}) {
    joined.push_back(joined_topology(SipTopology::full_mesh, p));
    joined.push_back(joined_topology(SipTopology::switched, p));
    joined.back().system.network_switch.sums.emplace();
  }
  CHECK(count_forms("intercube_allreduce", grids) > 30);
  CHECK(count_forms("ring_allreduce", grids) > 50);
  CHECK(count_forms("bidirectional_ring_allreduce", grids) > 30);
  CHECK(count_forms("mesh_allreduce", grids) > 30);
  CHECK(count_forms("tree_allreduce", grids) > 50);
  CHECK(count_forms("swing_whole_allreduce", grids) > 4);
  CHECK(count_forms("direct_allreduce", joined) > 20);
  CHECK(count_forms("switch_allreduce", joined) > 10);
}

// Blocks go h/4 rows down or up on the average, so that each of 2 w h links along columns carries
// w h^2/8 of them, more than those along rows carry.
TEST_CASE("the model of an all_to_all on a long torus is no shorter than its columns take",
          "[ccl][plan_time]") {
  constexpr Bytes kBlock = 1 << 20;
  for (const auto& [w, h] : {std::pair{2, 8}, {4, 8}, {4, 16}, {8, 32}}) {
    const auto choice =
        ccl::AlgorithmChoice::of_all(link_topology(SipTopology::torus_2d, w, h), deep("auto"));
    CAPTURE(w, h);
    for (const auto* const name : {"pairs", "pairs_at_once", "pairs_spread"}) {
      const auto time =
          choice.time_of(*ccl::find_algorithm(name), CollectiveKind::all_to_all, {.bytes = kBlock});
      CHECK(time.value() >= w * h * h / 8 * Time{20 * kBlock});
    }
  }
}

// The ratios of the model to the simulated kernels, the smaller over the larger.
std::vector<double> agreements(const Topology& topology, std::string_view algorithm) {
  const auto config = ccl::Config::parse(fmt::format("defaults: {{algorithm: {}}}", algorithm));
  std::vector<double> ratios;
  for (const DPPolicy& dp :
       {DPPolicy::on_one_pe(), DPPolicy{Shard::column_wise, Shard::column_wise}}) {
    const bool is_on_one = dp.pe_holders(topology) == 1;
    const int pes = is_on_one ? 1 : topology.pe_count() * sim::cube_grid(topology).count();
    for (const Bytes bytes : {1 << 12, 1 << 16, 1 << 20, 1 << 24}) {
      const Time took = KernelsUnderTest(topology, dp, config).run(bytes / 4);
      const Time model = modelled(topology, config, {.bytes = bytes, .lanes = pes}).value();
      const double ratio = static_cast<double>(model.count()) / static_cast<double>(took.count());
      CAPTURE(topology.name, algorithm, pes, bytes, ratio);
      CHECK(ratio > 0.5);
      CHECK(ratio < 2);
      ratios.push_back(std::max(ratio, 1 / ratio));
    }
  }
  return ratios;
}

TEST_CASE("the model is within 20 % of the simulated kernels at the median, and 2 times at worst",
          "[ccl][plan_time][exhaustive]") {
  std::vector<double> all;
  for (const std::string_view name :
       {"default", "ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"}) {
    const auto topology = Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name));
    for (const std::string_view algorithm : kAllReduceAlgorithms) {
      std::ranges::copy(agreements(topology, algorithm), std::back_inserter(all));
    }
  }
  std::ranges::sort(all);
  CHECK(all[all.size() / 2] < 1.2);
}

}  // namespace
}  // namespace kernbench::test::plan_time_test
