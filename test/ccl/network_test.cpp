// Switches, full meshes, 3-D tori and parallel links: exact sums, and the closed forms of
// algorithms and protocols to the picosecond.  alpha is 500 ns, beta 20 ps per byte (50 GB/s).

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "ccl/backend/choice.h"
#include "ccl/core/algorithm.h"
#include "ccl/core/lower_bound.h"
#include "ccl/steps/plan_walk.h"
#include "runtime/torch/run_ranks.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/closed_form.h"
#include "test/ccl/group_under_test.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::network_test {
namespace {

using distributed::CollectiveKind;

constexpr std::int64_t kGBs = 1'000'000'000;
constexpr Time kAlpha{500'000};
constexpr Time kByte{20};  // beta
constexpr Time kNews = kAlpha + 16 * kByte;
constexpr Bytes kLargestEager = 1 << 10;
constexpr Time news_before(Bytes message) {
  return message > kLargestEager ? kNews : Time{0};
}

// A message through the switch pays one latency on each side of it.
Topology switch_of(int count, bool adds_up = true) {
  Topology topology = joined_topology(SipTopology::switched, count);
  topology.system.sip_link.latency = kAlpha / 2;
  if (adds_up) topology.system.network_switch.sums.emplace();
  return topology;
}

ccl::Config by(std::string_view algorithm, std::string_view more = "") {
  return ccl::Config::parse(
      fmt::format("defaults: {{algorithm: {}, depth: 64, slot: 16 MiB, buffer_kind: sram}}\n{}",
                  algorithm, more));
}

Time simulated(const Topology& topology, const ccl::Config& config, Bytes bytes) {
  return KernelsUnderTest(topology, DPPolicy::on_one_pe(), config).run(bytes / 4);
}

void check(const Topology& topology, const ccl::Config& config, Bytes bytes, Time by_hand) {
  CAPTURE(config.algorithm_name(), topology.system.sip_count, bytes);
  CHECK(simulated(topology, config, bytes) == by_hand);
  const auto form = closed_form({topology, DPPolicy::on_one_pe(), bytes / 4, DType::f32, config});
  CHECK(form == by_hand);
  CHECK(ccl::all_reduce_lower_bound(topology, bytes) <= by_hand);
}

TEST_CASE("in a full mesh, direct takes 2 (alpha + n/P beta), after news if messages are large",
          "[ccl][timing][network]") {
  for (const int p : {2, 3, 8, 16}) {
    for (const Bytes chunk : {16, 1000, 1028, 65536}) {
      check(joined_topology(SipTopology::full_mesh, p), by("direct_allreduce"), p * chunk,
            news_before(chunk) + 2 * (kAlpha + chunk * kByte));
    }
  }
}

TEST_CASE("through a switch, direct takes 2 (alpha + (P - 1)/P n beta) after that news",
          "[ccl][timing][network]") {
  for (const int p : {2, 3, 8, 16}) {
    for (const Bytes chunk : {16, 1000, 65536}) {
      check(switch_of(p), by("direct_allreduce"), p * chunk,
            news_before(chunk) + 2 * (kAlpha + (p - 1) * chunk * kByte));
    }
  }
}

TEST_CASE("a switch that adds up takes alpha, two messages and the sum", "[ccl][timing][network]") {
  for (const int p : {2, 3, 8}) {
    for (const Bytes bytes : {16, 1000, 65536}) {
      Topology topology = switch_of(p);
      check(topology, by("switch_allreduce"), bytes, kAlpha + 2 * bytes * kByte);
      topology.system.network_switch.sums = LinkSpec{Bandwidth{25 * kGBs}, Time{30'000}};
      check(topology, by("switch_allreduce"), bytes,
            kAlpha + Time{30'000} + 2 * bytes * kByte + 2 * bytes * kByte);
    }
  }
}

TEST_CASE("the core of an oversubscribed switch carries all messages", "[ccl][timing][network]") {
  Topology topology = switch_of(8, false);
  topology.system.network_switch.core = {Bandwidth{100 * kGBs}, Time{70'000}};  // of 400
  const Bytes bytes = 8 << 20;
  const Time all = Time{2 * 7 * bytes * 10};  // 2 (P - 1) n over the core
  CHECK(ccl::all_reduce_lower_bound(topology, bytes) == kAlpha + Time{70'000} + all);
  const Time took = simulated(topology, by("direct_allreduce"), bytes);
  CHECK(took >= all);
  CHECK(took < all + 4 * kAlpha + bytes / 8 * kByte);
}

// A node is a pair, so that each way has one message within the node and one between nodes.  Those
// of the node to the target itself go meanwhile.
TEST_CASE("between nodes, hierarchical takes 2 (a + n/P b + A + n/P B)", "[ccl][timing][network]") {
  const Topology topology = in_nodes(joined_topology(SipTopology::full_mesh, 4), 2);
  constexpr Time kBetween{2'000'000};
  constexpr Time kByteBetween{100};
  for (const Bytes bytes : {1024, 4096}) {
    CAPTURE(bytes);
    CHECK(simulated(topology, by("hierarchical_allreduce"), bytes) ==
          2 * (kAlpha + bytes / 4 * kByte + kBetween + bytes / 4 * kByteBetween));
  }
}

TEST_CASE("the links between nodes bound an all_reduce, and hierarchical comes near",
          "[ccl][timing][network]") {
  Topology topology = in_nodes(joined_topology(SipTopology::switched, 16), 4);
  topology.system.sip_link.bandwidth = Bandwidth{200 * kGBs};
  constexpr Bytes kBytes = 16 << 20;
  const Time bound = ccl::all_reduce_lower_bound(topology, kBytes);
  CHECK(bound >= kBytes * 2 * 3 / 16 * Time{100});  // 2 (N - 1) n over 16 links of 10 GB/s
  const Time took = simulated(topology, by("hierarchical_allreduce"), kBytes);
  CHECK(took >= bound);
  CHECK(took <= bound + bound / 5);
  CHECK(simulated(topology, by("ring_allreduce"), kBytes) > 3 * took);
}

TEST_CASE("SIPs that share a link to other nodes share its bandwidth", "[ccl][timing][network]") {
  Topology topology = in_nodes(joined_topology(SipTopology::switched, 8), 4);
  topology.system.sip_link.bandwidth = Bandwidth{200 * kGBs};
  constexpr Bytes kBytes = 4 << 20;
  const Time apart = simulated(topology, by("hierarchical_allreduce"), kBytes);
  topology.system.nodes.sips_per_link = 4;
  const Time shared = simulated(topology, by("hierarchical_allreduce"), kBytes);
  CHECK(shared > 3 * apart);
  CHECK(shared >= ccl::all_reduce_lower_bound(topology, kBytes));
}

TEST_CASE("in a full mesh with a slow pair, direct takes 2 (A + n/P B)", "[ccl][timing][network]") {
  Topology mesh = joined_topology(SipTopology::full_mesh, 4);
  constexpr Time kSlow{2'000'000};
  constexpr Time kSlowByte{100};
  mesh.system.unlike_links = {{UnlikeLinks::Of::pair, 1, 3, {Bandwidth{10 * kGBs}, kSlow}}};
  for (const Bytes bytes : {1024, 4096}) {
    CAPTURE(bytes);
    CHECK(simulated(mesh, by("direct_allreduce"), bytes) == 2 * (kSlow + bytes / 4 * kSlowByte));
  }
}

// Data that go along rows of 4 first load a row's links with 3/4 of themselves, and a column's with
// 3/16, each of which takes `slowness` times as long.
TEST_CASE("a torus whose columns are slow sends more data along rows first", "[ccl][network]") {
  Topology torus = link_topology(SipTopology::torus_2d, 4, 4);
  std::vector<int> sips(16);
  std::iota(sips.begin(), sips.end(), 0);
  const auto load = [&](Bandwidth columns) {
    torus.system.unlike_links = {{UnlikeLinks::Of::dimension, 1, 0, {columns, kAlpha}}};
    return ccl::walk_plan(*ccl::find_algorithm("intercube_allreduce"), CollectiveKind::all_reduce,
                          torus, ccl::shape_of_sips(torus, sips), sips)
        .load_of_block();
  };
  const auto by_hand = [](double rows_first, double slowness) {
    const double along_rows = rows_first * 3 / 4 + (1 - rows_first) * 3 / 16;
    const double along_columns = rows_first * 3 / 16 + (1 - rows_first) * 3 / 4;
    return std::max(along_rows, slowness * along_columns);
  };
  CHECK(load(Bandwidth{50 * kGBs}) == by_hand(0.5, 1));
  CHECK(load(Bandwidth{25 * kGBs}) == by_hand(0.75, 2));
  CHECK(load(Bandwidth{25 * kGBs / 2}) == by_hand(1, 4));
  CHECK(load(Bandwidth{100 * kGBs}) == by_hand(0.25, 0.5));
}

TEST_CASE("a protocol adds its start, its latency per message and its share of the link",
          "[ccl][timing][network]") {
  const Topology mesh = joined_topology(SipTopology::full_mesh, 4);
  const std::string protocols =
      "protocols:\n"
      "  - small: {up_to: 4000 B, start: 3 us, latency: 700 ns, efficiency: 50 %}\n"
      "  - large: {start: 1 us, latency: 200 ns}\n";
  const auto config = by("direct_allreduce", protocols);
  const auto us = [](std::int64_t ns) { return Time{ns * 1000}; };
  // The news of receives come while the kernel starts: then nothing waits for them.
  CHECK(simulated(mesh, config, 4000) == us(3000) + kNews + 2 * (kAlpha + us(700) + 2000 * kByte));
  CHECK(simulated(mesh, config, 4016) == us(1000) + kNews + 2 * (kAlpha + us(200) + 1004 * kByte));
  CHECK(simulated(mesh, by("direct_allreduce"), 4000) == 2 * (kAlpha + 1000 * kByte));
}

TEST_CASE("protocols of ccl.yaml ascend, and shares are of a hundred", "[ccl][config][network]") {
  const auto error = [](const char* text) {
    return error_of<ConfigError>([&] { ccl::Config::parse(text); });
  };
  CHECK_THAT(error("protocols: [{a: {latency: 1 ns}}, {b: {up_to: 1 KiB, latency: 1 ns}}]"),
             Catch::Contains("ccl.yaml:1:") && Catch::Contains("KB-Y045"));
  CHECK_THAT(error("protocols: [{a: {latency: 1 ns, efficiency: 101 %}}]"),
             Catch::Contains("[KB-Y020]") && Catch::Contains("100 %"));
  CHECK_THAT(error("protocols: [{a: {efficiency: 90 %}}]"), Catch::Contains("latency"));
  CHECK_THAT(error("protocols: [{a: {latency: 1 ns, efficiency: 90.00001 %}}]"),
             Catch::Contains("[KB-Y020]") && Catch::Contains("0.0001 %"));
}

TEST_CASE("a protocol's hop is a time for each link between SIPs", "[ccl][timing][network]") {
  // The difference of the times with a hop of two microseconds and of one.
  const auto added = [](const Topology& topology) {
    const auto time = [&](int us) {
      return simulated(topology,
                       by("direct_allreduce",
                          fmt::format("protocols: [{{all: {{latency: 1 us, hop: {} us}}}}]\n", us)),
                       256);
    };
    return time(2) - time(1);
  };
  // A ring of 4 has two links on its longest way, a full mesh and a switch have one; both halves of
  // an all_reduce take it.
  CHECK(added(joined_topology(SipTopology::ring_1d, 4)) == 2 * Time{2'000'000});
  CHECK(added(joined_topology(SipTopology::full_mesh, 4)) == 2 * Time{1'000'000});
  CHECK(added(joined_topology(SipTopology::switched, 4)) == 2 * Time{1'000'000});
}

TEST_CASE("a protocol without a size that is not the last serves the rules that name it",
          "[ccl][config][network]") {
  using distributed::CollectiveKind;
  const ccl::Config config = ccl::Config::parse(
      "protocols:\n"
      "  - one: {latency: 1 ns, efficiency: 90.0001 %}\n"
      "  - small: {up_to: 1 KiB, latency: 2 ns}\n"
      "  - other: {latency: 3 ns}\n"
      "  - large: {latency: 4 ns}\n"
      "rules:\n"
      "  - all_gather: {algorithm: ring, protocol: one}\n"
      "  - all_gather: {algorithm: ring, group: g, protocol: other}\n"
      "  - reduce_scatter: {algorithm: ring, protocol: small}\n"
      "  - broadcast: {algorithm: chain, protocol: large}\n");  // which is still of large sizes
  CHECK(config.protocol_for(1024)->name == "small");
  CHECK(config.protocol_for(1025)->name == "large");
  const auto named = [&](CollectiveKind kind) {
    return config.protocol_for(4096, config.rule_for(kind, 4, 4096))->name;
  };
  CHECK(named(CollectiveKind::all_gather) == "one");
  CHECK(named(CollectiveKind::reduce_scatter) == "small");
  CHECK(named(CollectiveKind::all_reduce) == "large");
  CHECK(config.protocol_for(1, config.rule_for(CollectiveKind::all_gather, 4, 1))
            ->params()
            .on_the_wire(900'001) == 1'000'000);
}

TEST_CASE("a rule's sizes are those of nccl-tests", "[ccl][config][network]") {
  using distributed::CollectiveKind;
  const Topology ring = joined_topology(SipTopology::ring_1d, 8);
  const auto choice = ccl::AlgorithmChoice::of_all(
      ring, ccl::Config::parse("rules:\n"
                               "  - reduce_scatter: {algorithm: direct, up_to: 512 KiB}\n"
                               "  - all_reduce: {algorithm: direct_allreduce, up_to: 512 KiB}\n"));
  constexpr Bytes kSize = 512 << 10;
  CHECK(choice.number_of_rule(CollectiveKind::reduce_scatter, kSize / 8) == 1);
  CHECK(choice.number_of_rule(CollectiveKind::reduce_scatter, kSize / 8 + 1) == 0);
  CHECK(choice.number_of_rule(CollectiveKind::all_reduce, kSize) == 2);
  CHECK(choice.number_of_rule(CollectiveKind::all_reduce, kSize + 1) == 0);
}

std::vector<Topology> small_networks() {
  std::vector<Topology> all = {joined_topology(SipTopology::full_mesh, 2),
                               in_nodes(joined_topology(SipTopology::full_mesh, 6), 3),
                               in_nodes(joined_topology(SipTopology::switched, 8), 2),
                               in_boards(joined_topology(SipTopology::switched, 12), 3, 2),
                               in_boards(joined_topology(SipTopology::ring_1d, 12), 3, 2),
                               joined_topology(SipTopology::full_mesh, 5),
                               joined_topology(SipTopology::torus_3d, 2, 2, 2),
                               joined_topology(SipTopology::torus_3d, 3, 1, 3),
                               switch_of(3),
                               switch_of(8),
                               switch_of(5, false)};
  for (Topology& topology : all) {
    topology.sip.cubes_w = 2;
    topology.cube.pe_per_corner = 2;
    topology.cube.hbm.channels = 2;
    topology.system.links_per_pair = 3;
  }
  return all;
}

TEST_CASE("all_reduce is exact over every network, by every algorithm that it has",
          "[ccl][exact][network][exhaustive]") {
  for (const Topology& topology : small_networks()) {
    for (const std::string_view algorithm :
         {"intercube_allreduce", "ring_allreduce", "tree_allreduce", "direct_allreduce",
          "hierarchical_allreduce", "switch_allreduce", "auto"}) {
      if (algorithm == "switch_allreduce" && !topology.system.network_switch.sums) continue;
      if (algorithm == "hierarchical_allreduce" && topology.system.nodes.count == 1) continue;
      if (algorithm == "direct_allreduce" && !joins_all(topology.system.topology)) continue;
      for (const DPPolicy& dp :
           {DPPolicy::on_one_pe(), DPPolicy{Shard::column_wise, Shard::column_wise},
            DPPolicy{Shard::partial, Shard::column_wise}}) {
        for (const std::int64_t n : {1, 37, 4096}) {
          check_exact({.topology = topology,
                       .dp = dp,
                       .shape = {1, n},
                       .dtype = DType::f16,
                       .config = ccl::Config().with_algorithm(algorithm)});
        }
      }
    }
  }
}

TEST_CASE("switch_allreduce needs a switch that adds up", "[ccl][errors][network]") {
  const AllReduce all_reduce{.topology = switch_of(4, false),
                             .shape = {1, 8},
                             .config = ccl::Config().with_algorithm("switch_allreduce")};
  CHECK_THAT(error_of<SpawnException>([&] { run(all_reduce); }),
             test::Says("KB-Y047", "'switch_allreduce'", "adds up", "'switch: {sums: ...}'"));
}

TEST_CASE("auto goes straight where all are neighbours, and through a switch that adds up",
          "[ccl][auto][network]") {
  const auto config = ccl::Config().with_algorithm("auto");
  const auto chosen = [&](const Topology& topology, Bytes bytes, CollectiveKind kind) {
    return std::string(
        ccl::AlgorithmChoice::of_all(topology, config).choose(kind, {.bytes = bytes}).name);
  };
  const Topology mesh = joined_topology(SipTopology::full_mesh, 8);
  CHECK(chosen(mesh, 1 << 20, CollectiveKind::all_reduce) == "direct_allreduce");
  CHECK(chosen(mesh, 1 << 20, CollectiveKind::all_gather) == "direct");
  CHECK(chosen(switch_of(8), 1 << 24, CollectiveKind::all_reduce) == "switch_allreduce");
  CHECK(chosen(switch_of(8, false), 1 << 16, CollectiveKind::all_reduce) == "direct_allreduce");
  const Topology nodes = in_nodes(switch_of(16, false), 4);
  CHECK(chosen(nodes, 1 << 20, CollectiveKind::all_reduce) == "hierarchical_allreduce");
  CHECK(chosen(nodes, 1 << 20, CollectiveKind::all_gather) == "hierarchical");
  CHECK(chosen(nodes, 1 << 20, CollectiveKind::reduce_scatter) == "hierarchical");
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    CHECK(chosen(nodes, 1 << 10, kind) == "hierarchical_whole");
    CHECK(chosen(nodes, 1 << 20, kind) == "hierarchical");
  }
  CHECK(chosen(nodes, 1 << 20, CollectiveKind::gather) == "hierarchical");
}

TEST_CASE("nobody's choice is the fastest by the model", "[ccl][auto][network]") {
  const auto chosen = [&](const Topology& topology, Bytes bytes) {
    return ccl::AlgorithmChoice::of_all(topology, {})
        .choose(CollectiveKind::all_reduce, {.bytes = bytes})
        .name;
  };
  CHECK(chosen(switch_of(8, false), 1 << 10) == "direct_allreduce");
  for (const Bytes bytes : {1 << 10, 1 << 16, 1 << 22}) {
    CHECK(chosen(joined_topology(SipTopology::full_mesh, 8), bytes) == "direct_allreduce");
    CHECK(chosen(link_topology(SipTopology::ring_1d, 8), bytes) ==
          (bytes == 1 << 10 ? "swing_allreduce" : "intercube_allreduce"));
  }
}

TEST_CASE("groups of some SIPs of every network run every collective", "[ccl][network]") {
  for (const Topology& topology : small_networks()) {
    if (topology.system.sip_count < 5) continue;
    RuntimeContext torch(topology);
    auto& dist = torch.distributed;
    dist.init_process_group("ahbm");
    run_on_devices(torch, topology.system.sip_count, [&](int rank) {
      const auto group = dist.new_group({0, 3, 4});
      if (rank != 0 && rank != 3 && rank != 4) return;
      const Tensor x = torch.full({100}, rank + 1, {});
      dist.all_reduce(x, ReduceOp::max, {.group = group});
      CHECK(x.at({99}) == 5);
      std::vector<Tensor> all;
      for (int i = 0; i < 3; ++i) all.push_back(torch.full({100}, 0, {}));
      const Tensor own = torch.full({100}, rank, {});
      dist.all_gather(all, own, {.group = group});
      CHECK(all[0].at({99}) == 0);
      CHECK(all[2].at({0}) == 4);
    });
  }
}

}  // namespace
}  // namespace kernbench::test::network_test
