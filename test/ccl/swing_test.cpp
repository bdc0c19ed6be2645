// All_reduce by pairs ever farther apart.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "ccl/backend/choice.h"
#include "ccl/backend/order_of_sums.h"
#include "runtime/torch/run_ranks.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/closed_form.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::swing_test {
namespace {

using distributed::CollectiveKind;

ccl::Config by(std::string_view algorithm) {
  return ccl::Config::parse(fmt::format("defaults: {{algorithm: {}}}", algorithm));
}

TEST_CASE("sums are exact on every grid whose sides are powers of two",
          "[ccl][swing][exhaustive]") {
  const std::string_view algorithm = GENERATE("swing_allreduce", "swing_whole_allreduce");
  const auto [kind, w, h] = GENERATE(table<SipTopology, int, int>({
      {SipTopology::ring_1d, 1, 1},
      {SipTopology::ring_1d, 2, 1},
      {SipTopology::ring_1d, 16, 1},
      {SipTopology::torus_2d, 2, 2},
      {SipTopology::torus_2d, 8, 2},
      {SipTopology::torus_2d, 4, 4},
      {SipTopology::mesh_2d_no_wrap, 2, 8},
      {SipTopology::full_mesh, 8, 1},
  }));
  if (algorithm == "swing_whole_allreduce" && std::max(w, h) > 4) return;
  for (const DPPolicy& dp :
       {DPPolicy::on_one_pe(), DPPolicy{Shard::column_wise, Shard::column_wise},
        DPPolicy{.cube = Shard::partial, .pe = Shard::row_wise}, DPPolicy::replicated()}) {
    for (const std::int64_t n : {1, 37, 4096}) {
      check_exact({.topology = round_topology(kind, w, h, 2, 1),
                   .dp = dp,
                   .shape = {3, n},
                   .config = by(algorithm)});
    }
  }
}

TEST_CASE("sums of tensors that scratch cannot hold are exact", "[ccl][swing]") {
  const std::string_view algorithm = GENERATE("swing_allreduce", "swing_whole_allreduce");
  Topology small = round_topology(SipTopology::torus_2d, 4, 2);
  small.pe.tcm.capacity = 128 << 10;
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), DPPolicy{.pe = Shard::column_wise}}) {
    const ccl::Config config = by(algorithm).with_buffer_kind(sim::BufferKind::sram);
    check_exact({.topology = small, .dp = dp, .shape = {1, 100'003}, .config = config});
  }
}

// Messages of an all_reduce of 4,096 f32 over 4 x 4 SIPs, on so many PEs of each.
std::int64_t messages_by(std::string_view algorithm, int pes) {
  RuntimeContext torch(link_topology(SipTopology::torus_2d, 4, 4, pes),
                       {.ccl = by(algorithm), .data = false});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 16, [&](int) {
    const DPPolicy dp{.cube = Shard::column_wise, .pe = Shard::column_wise};
    torch.distributed.all_reduce(torch.empty({1, 4096}, {.dtype = DType::f32, .dp = dp}));
  });
  return torch.engine().op_log().count(sim::OpKind::send);
}

TEST_CASE("a member sends a message of each part at each step, whatever the PEs", "[ccl][swing]") {
  const int pes = GENERATE(1, 4);
  constexpr int kParts = 4;
  constexpr int kSteps = 4;  // log2(16)
  CHECK(messages_by("swing_whole_allreduce", pes) == 16 * kParts * kSteps);
  CHECK(messages_by("swing_allreduce", pes) == 16 * kParts * 2 * kSteps);  // there and back
}

// TIMING.md 3.2: alpha is 500 ns, beta 20 ps per byte.
TEST_CASE("on rings and tori of 4 no two messages meet", "[ccl][swing][timing]") {
  const auto [kind, h, steps, parts] = GENERATE(table<SipTopology, int, int, int>({
      {SipTopology::ring_1d, 1, 2, 2},
      {SipTopology::torus_2d, 4, 4, 4},
  }));
  const auto config = ccl::Config::parse(
      "defaults: {algorithm: swing_whole_allreduce, depth: 64, buffer_kind: sram, slot: 16 MiB}");
  const Topology links = link_topology(kind, 4, h);
  for (const std::int64_t n : {64, 4096}) {
    const Time by_hand = steps * (Time{500'000} + Time{20} * (n * 4 / parts));
    CHECK(KernelsUnderTest(links, DPPolicy::on_one_pe(), config).run(n) == by_hand);
    CHECK(closed_form({links, DPPolicy::on_one_pe(), n, DType::f32, config}) == by_hand);
  }
}

// D. De Sensi et al., "Swing: Short-cutting Rings for Higher Bandwidth Allreduce" (NSDI 2024): in
// step s an even rank r exchanges with r + rho(s), and an odd one with r - rho(s), where rho is
// 1, -1, 3, ...  The other half of the chunks goes the other way round.
TEST_CASE("partners on a ring are those of the paper", "[ccl][swing]") {
  const ccl::GroupShape shape =
      ccl::shape_of_sips(link_topology(SipTopology::ring_1d, 8), {0, 1, 2, 3, 4, 5, 6, 7});
  for (int rank = 0; rank < 8; ++rank) {
    ccl::Plan plan(CollectiveKind::all_reduce, rank);
    ccl::find_algorithm("swing_allreduce")
        ->plan({shape, CollectiveKind::all_reduce, 0, rank, {}}, plan);
    std::ranges::stable_sort(plan.moves, {}, &ccl::Move::time);
    for (const int way : {1, -1}) {
      std::vector<int> partners;
      for (const ccl::Move& move : plan.moves) {
        const bool is_of_way = (move.chunks.begin < plan.chunk_count / 2) == (way == 1);
        if (is_of_way) std::ranges::copy(move.to, std::back_inserter(partners));
      }
      CAPTURE(rank, way, plan.chunk_count);
      REQUIRE(partners.size() == 5);  // in the last step partners exchange all that they have
      for (const auto& [step, rho] : {std::pair{0, 1}, {1, -1}, {2, 3}}) {
        const int ahead = rank % 2 == 0 ? way * rho : -way * rho;
        CHECK(partners[static_cast<std::size_t>(step)] == (rank + ahead + 8) % 8);
        CHECK(partners[static_cast<std::size_t>(4 - step)] == (rank + ahead + 8) % 8);
      }
    }
  }
}

TEST_CASE("groups take the fastest if nobody names an algorithm", "[ccl][swing][auto]") {
  const auto chosen = [](int side, const ccl::Config& config, Bytes bytes) {
    const Topology torus = round_topology(SipTopology::torus_2d, side, side);
    return ccl::AlgorithmChoice::of_all(torus, config)
        .choose(CollectiveKind::all_reduce, {bytes, 4})
        .name;
  };
  const ccl::Config nobody = ccl::Config::parse("defaults: {depth: 4}");
  CHECK(chosen(8, nobody, 1024) == "swing_allreduce");
  CHECK(chosen(8, nobody, 64 << 20) == "intercube_allreduce");
  CHECK(chosen(4, nobody, 1024) == "swing_whole_allreduce");
  CHECK(chosen(8, by("intercube_allreduce"), 1024) == "intercube_allreduce");
  CHECK(chosen(8, nobody.with_algorithm("ring_allreduce"), 1024) == "ring_allreduce");
  CHECK(chosen(4, by("auto"), 1024) == "swing_whole_allreduce");
}

TEST_CASE("the model finds the fastest on a torus of 4 x 4", "[ccl][swing][auto]") {
  for (const std::int64_t n : {64, 8192, 1 << 19}) {
    const auto time_by = [&](std::string_view algorithm) {
      return run({.topology = round_topology(SipTopology::torus_2d, 4, 4),
                  .shape = {1, n},
                  .config = by(algorithm),
                  .summand = nullptr,
                  .data = false})
          .took;
    };
    const Time fastest = std::min({time_by("swing_allreduce"), time_by("swing_whole_allreduce"),
                                   time_by("intercube_allreduce"), time_by("tree_allreduce")});
    CAPTURE(n, fastest.count());
    CHECK(time_by("auto").count() * 10 <= fastest.count() * 13);
  }
}

TEST_CASE("other grids are refused", "[ccl][swing][errors]") {
  const Topology ring = link_topology(SipTopology::ring_1d, 6);
  CHECK_THAT(error_of<ConfigError>([&] {
               ccl::AlgorithmChoice::of_all(ring, by("swing_allreduce"))
                   .choose(distributed::CollectiveKind::all_reduce, {.bytes = 1024});
             }),
             test::Says("KB-Y047", "'swing_allreduce'", "'default_pg'", "6 ranks"));
}

// Each row of 32 begins with three steps that halve, and each of 8 with two.
TEST_CASE("ranks of long rows have the same bits, or are refused", "[ccl][swing]") {
  const auto [w, h] = GENERATE(table<int, int>({{32, 1}, {8, 1}, {32, 8}, {8, 32}}));
  const Topology topology =
      round_topology(h == 1 ? SipTopology::ring_1d : SipTopology::torus_2d, w, h);
  std::vector<int> sips(static_cast<std::size_t>(w * h));
  std::iota(sips.begin(), sips.end(), 0);
  const ccl::Config config = by("swing_allreduce");
  const ccl::OrderOfSums order =
      ccl::find_order({topology, config, *ccl::find_algorithm("swing_allreduce"),
                       CollectiveKind::all_reduce, sips, 4096});
  for (const auto& sums : order.sums) CHECK(order.has_same_bits(sums));
  const ccl::GroupShape shape = ccl::shape_of_sips(topology, sips);
  CHECK_THAT(std::string(describe_misfit(*ccl::find_algorithm("swing_whole_allreduce"), shape)),
             Catch::Contains("different bits"));
}

}  // namespace
}  // namespace kernbench::test::swing_test
