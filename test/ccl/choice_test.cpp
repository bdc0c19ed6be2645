// Tests the choice of an algorithm: the one that ccl.yaml names, or the fastest by the model.

#include "ccl/backend/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/torch/run_ranks.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::choice_test {
namespace {

using distributed::CollectiveKind;

const ccl::Config kAuto = ccl::Config::parse("defaults: {algorithm: auto}");

std::string_view chosen(const Topology& topology, Bytes bytes,
                        CollectiveKind kind = CollectiveKind::all_reduce) {
  return ccl::AlgorithmChoice::of_all(topology, kAuto).choose(kind, {.bytes = bytes}).name;
}

Topology shipped(std::string_view name) {
  return Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name));
}

TEST_CASE("the choice is within 1.3 of the fastest, at every size and on every shape",
          "[ccl][auto][exhaustive]") {
  const std::string name = GENERATE("ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3", "default");
  const Topology topology = shipped(name);
  for (const DPPolicy& dp :
       {DPPolicy::on_one_pe(), DPPolicy{Shard::column_wise, Shard::column_wise}}) {
    for (std::int64_t n = 64; n <= 1 << 18; n *= 8) {
      const auto time_by = [&](const ccl::Config& config) {
        return run({.topology = topology,
                    .dp = dp,
                    .shape = {1, n},
                    .config = config,
                    .summand = nullptr,
                    .data = false})
            .took;
      };
      Time fastest = Time::max();
      for (const std::string_view algorithm : kAllReduceAlgorithms) {
        fastest = std::min(fastest, time_by(kAuto.with_algorithm(algorithm)));
      }
      CAPTURE(name, to_string(dp), n, fastest.count());
      CHECK(time_by(kAuto).count() * 10 <= fastest.count() * 13);
    }
  }
}

TEST_CASE("on a ring of 16 small tensors take few steps, large ones both ways round",
          "[ccl][auto]") {
  const Topology ring = link_topology(SipTopology::ring_1d, 16);
  CHECK(chosen(ring, 4) == "swing_allreduce");
  CHECK(chosen(ring, 1 << 24) != "ring_allreduce");
  CHECK(chosen(ring, 1 << 24) != "tree_allreduce");
}

TEST_CASE("on a mesh a corner's two links carry the others' blocks alike", "[ccl][auto]") {
  for (const auto& [w, h] : {std::pair{3, 2}, {2, 3}}) {
    auto choice =
        ccl::AlgorithmChoice::of_all(link_topology(SipTopology::mesh_2d_no_wrap, w, h), kAuto);
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
      const auto& all = choice.candidates(kind);
      const auto grid = std::ranges::find_if(
          all, [](const ccl::Candidate& one) { return one.algorithm->name == "torus"; });
      CHECK(grid->walk.load_of_block() == 2.5);
    }
  }
}

// Returns the share of a block that a SIP's links carry, if they all carry as much.
TEST_CASE("on a torus of three dimensions all links of a SIP carry alike", "[ccl][auto]") {
  const auto [w, links, within] =
      GENERATE(std::tuple{3, 6, 1e-9}, std::tuple{4, 6, 1e-9}, std::tuple{2, 5, 0.02});
  const Topology torus = joined_topology(SipTopology::torus_3d, w, w == 2 ? 3 : w, w == 2 ? 4 : w);
  auto choice = ccl::AlgorithmChoice::of_all(torus, kAuto);
  const auto load = [&](std::string_view algorithm, CollectiveKind kind) {
    const auto& all = choice.candidates(kind);
    const auto found = std::ranges::find_if(
        all, [&](const ccl::Candidate& one) { return one.algorithm->name == algorithm; });
    return found->walk.load_of_block();
  };
  const double size = torus.system.sip_count;
  const double blocks = (size - 1) / links;
  CHECK(load("torus", CollectiveKind::all_gather) == Approx(blocks).epsilon(within));
  CHECK(load("torus", CollectiveKind::reduce_scatter) == Approx(blocks).epsilon(within));
  CHECK(load("intercube_allreduce", CollectiveKind::all_reduce) ==
        Approx(2 * blocks / size).epsilon(within));
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    CHECK(load("disjoint_trees", kind) == Approx(1.0 / links));
  }
  for (const CollectiveKind kind : {CollectiveKind::gather, CollectiveKind::scatter}) {
    CHECK(load("packed_ways", kind) == Approx(blocks).epsilon(0.011));
  }
}

// A corner of a mesh has two links, and sends 15 blocks; the SIP beside the centre has four.
TEST_CASE("on a mesh all links of a root carry alike", "[ccl][auto]") {
  const Topology mesh = link_topology(SipTopology::mesh_2d_no_wrap, 4, 4);
  auto choice = ccl::AlgorithmChoice::of_all(mesh, kAuto);
  for (const CollectiveKind kind : {CollectiveKind::gather, CollectiveKind::scatter}) {
    for (const auto& [root, links] : {std::pair{0, 2}, {5, 4}, {15, 2}}) {
      const auto& all = choice.candidates(kind, root);
      const auto found = std::ranges::find_if(
          all, [](const ccl::Candidate& one) { return one.algorithm->name == "packed_ways"; });
      CHECK(found->walk.load_of_block() == Approx(15.0 / links).epsilon(0.011));
    }
    CHECK(choice.choose(kind, {.bytes = Bytes{1} << 20}).name == "packed_ways");
  }
}

TEST_CASE("small broadcasts go the shorter ways, large ones half each way", "[ccl][auto]") {
  const Topology ring = shipped("ring_1d_6");
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    CHECK(chosen(ring, 1024, kind) == "chain");
    CHECK(chosen(ring, 1 << 24, kind) == "half_chains");
  }
}

// A ring of five SIPs, of which the link from `slow` to the next one is a tenth as fast.  No two
// SIPs are as far from each other one way round as the other.
Topology ring_with_slow_link(int slow) {
  Topology ring = link_topology(SipTopology::ring_1d, 5);
  UnlikeLinks links{UnlikeLinks::Of::pair, slow, (slow + 1) % 5, ring.system.sip_link};
  links.link.bandwidth = Bandwidth{links.link.bandwidth.per_second / 10};
  ring.system.unlike_links = {links};
  return ring;
}

Time modelled_time(const Topology& topology, CollectiveKind kind, int root) {
  const bool has_pairs = kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
  return ccl::AlgorithmChoice::of_all(topology, kAuto)
      .time_of(*ccl::find_algorithm(has_pairs ? "pairs" : "chain"), kind,
               {.bytes = 1 << 20, .lanes = 16, .root = root})
      .value();
}

TEST_CASE("a root's time is by its own place beside a slow link", "[ccl][auto]") {
  using enum CollectiveKind;
  for (const CollectiveKind kind : {broadcast, reduce, gather, scatter}) {
    for (int root = 0; root < 5; ++root) {
      const Time time = modelled_time(ring_with_slow_link(0), kind, root);
      for (int by = 1; by < 5; ++by) {
        CAPTURE(root, by);
        CHECK(modelled_time(ring_with_slow_link(by), kind, (root + by) % 5) == time);
      }
    }
  }
  CHECK(modelled_time(ring_with_slow_link(0), gather, 0) >
        modelled_time(ring_with_slow_link(0), gather, 3));
}

TEST_CASE("a large broadcast in a full mesh goes over trees, and a small one straight",
          "[ccl][auto]") {
  for (const int size : {4, 8, 32}) {
    const Topology mesh = joined_topology(SipTopology::full_mesh, size);
    for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
      CHECK(chosen(mesh, 1024, kind) == "direct");
      CHECK(chosen(mesh, 1 << 24, kind) == "disjoint_trees");
    }
  }
}

TEST_CASE("a large broadcast on a torus goes over its disjoint trees", "[ccl][auto]") {
  const Topology torus = link_topology(SipTopology::torus_2d, 4, 4);
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    CHECK(chosen(torus, 1 << 24, kind) == "disjoint_trees");
  }
}

TEST_CASE("on a ring a small block goes straight, past the SIPs between", "[ccl][auto]") {
  const Topology ring = shipped("ring_1d_6");
  CHECK(chosen(ring, 64, CollectiveKind::all_gather) == "direct");
  CHECK(chosen(ring, 1 << 20, CollectiveKind::all_gather) != "direct");
}

// Groups of one to six SIPs in any order, moved by every distance that leaves them on the grid.
TEST_CASE("a group and its translations take the same algorithm", "[ccl][auto][exhaustive]") {
  const Topology topology =
      GENERATE(link_topology(SipTopology::ring_1d, 8), link_topology(SipTopology::torus_2d, 4, 3),
               link_topology(SipTopology::mesh_2d_no_wrap, 4, 3),
               joined_topology(SipTopology::torus_3d, 2, 2, 2));
  const sim::Grid grid = sim::sip_grid(topology.system);
  std::mt19937 draws(7);
  std::vector<int> sips(static_cast<std::size_t>(grid.count()));
  std::iota(sips.begin(), sips.end(), 0);
  int translations = 0;
  for (int i = 0; i < 12; ++i) {
    std::shuffle(sips.begin(), sips.end(), draws);
    const std::vector<int> group(sips.begin(), sips.begin() + 2 + i % 5);
    const auto choices = [&](const std::vector<int>& members) {
      std::string names;
      ccl::AlgorithmChoice choice(topology, kAuto, ccl::shape_of_sips(topology, members), members,
                                  "");
      for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                        CollectiveKind::broadcast, CollectiveKind::all_to_all}) {
        for (const Bytes bytes : {64, 1 << 14, 1 << 20}) {
          names += fmt::format("{} ", choice.choose(kind, {.bytes = bytes}).name);
        }
      }
      return names;
    };
    for (int to = 0; to < grid.count(); ++to) {
      std::vector<int> moved;
      for (const int sip : group) {
        const int x = grid.x_of(sip) + grid.x_of(to);
        const int y = grid.y_of(sip) + grid.y_of(to);
        if (!grid.wraps && (x >= grid.w || y >= grid.h)) break;
        moved.push_back(
            grid.index_of(x % grid.w, y % grid.h, (grid.z_of(sip) + grid.z_of(to)) % grid.d));
      }
      if (moved.size() < group.size()) continue;
      CAPTURE(group, moved);
      CHECK(choices(moved) == choices(group));
      ++translations;
    }
  }
  CHECK(translations >= 12);
}

TEST_CASE("a choice leaves no trace in the run that asked for it", "[ccl][auto]") {
  AllReduce all_reduce{.topology = round_topology(SipTopology::torus_2d, 2, 2, 2, 1),
                       .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
                       .shape = {1, 500},
                       .dtype = DType::f16,
                       .config = kAuto};
  const AllReduceResult by_auto = run(all_reduce);
  CHECK(wrong_sums(all_reduce, by_auto) == "");
  all_reduce.config = kAuto.with_algorithm(chosen(all_reduce.topology, 1000));
  const AllReduceResult by_name = run(all_reduce);
  CHECK(by_auto.took == by_name.took);
  CHECK(by_auto.events == by_name.events);
  CHECK(by_auto.fingerprint == by_name.fingerprint);
}

TEST_CASE("what auto chose among is told, the fastest first", "[ccl][auto]") {
  auto choice = ccl::AlgorithmChoice::of_all(shipped("ring_1d_6"), kAuto);
  const std::string text = choice.describe(CollectiveKind::all_reduce, {.bytes = 1024});
  CHECK_THAT(text, Catch::Matches(R"(\w+ [\d.]+ ns(, \w+ [\d.]+ ns){6})"));
  CHECK_THAT(text, Catch::StartsWith(std::string(
                       choice.choose(CollectiveKind::all_reduce, {.bytes = 1024}).name)));
}

void plan_nothing(const ccl::PlanRequest&, ccl::Plan&) {}

std::string_view misfit_of_odd(const ccl::GroupShape& shape) {
  return shape.size % 2 == 0 ? "" : "it needs an even number of ranks";
}

[[maybe_unused]] const bool kEvenIsRegistered =
    ccl::register_algorithm({.name = "test_even",
                             .plan = plan_nothing,
                             .collective = "all_gather",
                             .suits_auto = false,
                             .shapes = "an even number of ranks",
                             .misfit = misfit_of_odd});

TEST_CASE("an algorithm that a group's shape cannot carry is refused where the file names it",
          "[ccl][choice][errors]") {
  const Topology ring = shipped("ring_1d_6");
  const auto check = [&](const ccl::Config& config, std::vector<int> sips) {
    ccl::AlgorithmChoice(ring, config, ccl::shape_of_sips(ring, sips), sips, "EXPERTS")
        .check_configured();
  };
  const auto config = ccl::Config::parse("rules:\n  - all_gather: {algorithm: test_even}\n");
  CHECK_NOTHROW(check(config, {0, 1, 4, 5}));
  CHECK_THAT(error_of<ConfigError>([&] {
               check(config, {0, 1, 4});
             }),
             test::Says("KB-Y047", "'test_even'", "'EXPERTS'", "3 ranks", "`ranks`", "`group`"));
  CHECK_NOTHROW(check(ccl::Config::parse("rules: [{all_gather: {algorithm: test_even, ranks: 4}}]"),
                      {0, 1, 4}));
  CHECK_NOTHROW(check(ccl::Config::parse("rules: [{all_gather: {algorithm: test_even, group: X}}]"),
                      {0, 1, 4}));
  CHECK_THAT(
      error_of<ConfigError>([&] { check(ccl::Config().with_algorithm("EXPERTS:test_even"), {1}); }),
      Catch::StartsWith("[KB-Y047] the algorithm 'test_even'"));
}

TEST_CASE("switch_allreduce is refused where the file names it, unless a switch adds up",
          "[ccl][choice][errors]") {
  const Topology ring = shipped("ring_1d_6");
  const auto check = [&](std::string_view text, std::vector<int> sips) {
    ccl::AlgorithmChoice(ring, ccl::Config::parse(text), ccl::shape_of_sips(ring, sips), sips, "G")
        .check_configured();
  };
  const std::string_view rule = "rules: [{all_reduce: {algorithm: switch_allreduce, ranks: 3}}]";
  CHECK_THAT(error_of<ConfigError>([&] {
               check(rule, {0, 1, 2});
             }),
             test::Says("KB-Y047", "ccl.yaml:1:34:", "'switch_allreduce'", "'G'", "3 ranks",
                        "a switch between the SIPs that adds up"));
  CHECK_NOTHROW(check(rule, {0, 1}));
  CHECK_NOTHROW(check("defaults: {algorithm: switch_allreduce}", {4}));  // sends nothing
}

TEST_CASE("an algorithm for all groups is checked against those that use it",
          "[ccl][choice][errors]") {
  const Topology ring = shipped("ring_1d_6");
  const auto choice = [&](const ccl::Config& config, std::vector<int> sips) {
    return ccl::AlgorithmChoice(ring, config, ccl::shape_of_sips(ring, sips), sips, "default_pg");
  };
  const auto swing = ccl::Config().with_algorithm("swing_allreduce");
  auto of_all = choice(swing, {0, 1, 2, 3, 4, 5});
  CHECK_NOTHROW(of_all.check_configured());
  CHECK_THAT(
      error_of<ConfigError>([&] { of_all.choose(CollectiveKind::all_reduce, {.bytes = 1024}); }),
      Catch::StartsWith("[KB-Y047] the algorithm 'swing_allreduce' cannot serve the group "
                        "'default_pg' of 6 ranks: its rows and columns need powers of two"));
  CHECK(of_all.choose(CollectiveKind::all_gather, {.bytes = 1024}).name != "swing_allreduce");
  auto of_two = choice(swing, {0, 3});
  CHECK(of_two.choose(CollectiveKind::all_reduce, {.bytes = 1024}).name == "swing_allreduce");
  const auto file = ccl::Config::parse("defaults: {algorithm: swing_allreduce}\n");
  CHECK_THAT(error_of<ConfigError>([&] {
               choice(file, {0, 1, 2}).check_configured();
             }),
             Catch::StartsWith("ccl.yaml:1:23: [KB-Y047] the algorithm 'swing_allreduce'"));
}

TEST_CASE("an algorithm that is no all_reduce is refused by all_reduce", "[ccl][auto][errors]") {
  RuntimeContext torch(round_topology(),
                       {.ccl = ccl::Config::parse("defaults: {algorithm: hello_send}")});
  torch.distributed.init_process_group("ahbm");
  CHECK_THAT(error_of<SpawnException>([&] {
               run_on_devices(torch, 2, [&](int) {
                 Tensor x = torch.ones({4});
                 torch.distributed.all_reduce(x);
               });
             }),
             test::Says("KB-C012", "all_reduce", "'hello_send'", "ccl.yaml", "torch.distributed"));
}

}  // namespace
}  // namespace kernbench::test::choice_test
