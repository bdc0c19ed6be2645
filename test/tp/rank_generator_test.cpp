// How ranks are numbered, against closed forms.

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/support/error_text.h"
#include "tp/parallel_state.h"

namespace kernbench::test::rank_generator_test {
namespace {

using tp::ParallelSizes;
using tp::RankGenerator;
using Groups = std::vector<std::vector<int>>;

// first, first + step, ..., below `end`.
std::vector<int> range(int first, int end, int step = 1) {
  std::vector<int> ranks;
  for (int rank = first; rank < end; rank += step) ranks.push_back(rank);
  return ranks;
}

// Worlds of nodes x 8 ranks: tensor, pipeline, context, expert sizes.
struct World {
  int nodes, tp, pp, cp, ep;

  int size() const { return 8 * nodes; }
  int stage() const { return size() / pp; }
  ParallelSizes dense() const { return {.tp = tp, .dp = stage() / (tp * cp), .pp = pp, .cp = cp}; }
  ParallelSizes experts() const {
    return {.tp = tp, .ep = ep, .dp = stage() / (tp * ep), .pp = pp};
  }
};

const std::vector<World> kWorlds = {
    {1, 1, 1, 1, 1},   {1, 8, 1, 1, 1},   {1, 2, 2, 1, 1},   {1, 2, 4, 1, 1},    {1, 1, 8, 1, 1},
    {1, 2, 2, 2, 2},   {3, 8, 3, 1, 1},   {4, 2, 4, 1, 1},   {8, 8, 8, 1, 1},    {8, 2, 1, 1, 4},
    {8, 2, 2, 2, 4},   {8, 2, 1, 4, 8},   {8, 2, 2, 2, 8},   {8, 4, 1, 16, 1},   {16, 4, 8, 1, 1},
    {16, 4, 8, 1, 4},  {16, 4, 8, 4, 1},  {16, 8, 8, 1, 1},  {16, 1, 16, 2, 8},  {32, 4, 8, 1, 1},
    {32, 8, 8, 1, 1},  {32, 4, 8, 1, 4},  {32, 8, 8, 4, 1},  {64, 4, 2, 8, 8},   {64, 4, 8, 1, 1},
    {64, 8, 8, 1, 1},  {96, 4, 8, 1, 1},  {128, 4, 2, 8, 8}, {128, 4, 8, 1, 1},  {256, 4, 8, 1, 1},
    {316, 4, 8, 1, 1}, {384, 4, 8, 1, 1}, {512, 4, 8, 1, 1}, {1024, 4, 8, 1, 1}, {1344, 8, 4, 1, 1},
};

// "tp", "cp", ... of the order tp-cp-dp-pp: the members of each are a stride apart.
Groups closed_form(const World& world, int inner, int outer, int stride) {
  Groups groups;
  for (int block = 0; block < world.size(); block += outer) {
    for (int first = block; first < block + inner; ++first) {
      groups.push_back(range(first, block + outer, stride));
    }
  }
  return groups;
}

TEST_CASE("groups of up to 10,752 ranks are those of the closed forms", "[tp][rank_generator]") {
  for (const World& world : kWorlds) {
    CAPTURE(world.nodes, world.tp, world.pp, world.cp, world.ep);
    const auto [nodes, tp, pp, cp, ep] = world;
    const RankGenerator dense(world.dense());
    REQUIRE(dense.world_size() == world.size());
    CHECK(dense.get_ranks("tp") == closed_form(world, 1, tp, 1));
    CHECK(dense.get_ranks("cp") == closed_form(world, tp, tp * cp, tp));
    CHECK(dense.get_ranks("dp") == closed_form(world, tp * cp, world.stage(), tp * cp));
    CHECK(dense.get_ranks("pp") == closed_form(world, world.stage(), world.size(), world.stage()));
    CHECK(dense.get_ranks("tp-cp") == closed_form(world, 1, tp * cp, 1));
    CHECK(dense.get_ranks("dp-cp") == closed_form(world, tp, world.stage(), tp));
    CHECK(dense.get_ranks("tp-dp-cp") == closed_form(world, 1, world.stage(), 1));
    const RankGenerator experts(world.experts());
    CHECK(experts.get_ranks("ep") == closed_form(world, tp, tp * ep, tp));
    CHECK(experts.get_ranks("tp-ep") == closed_form(world, 1, tp * ep, 1));
    CHECK(experts.get_ranks("dp") == closed_form(world, tp * ep, world.stage(), tp * ep));
    CHECK(experts.get_ranks("pp") == dense.get_ranks("pp"));
  }
}

TEST_CASE("groups along tensor and pipeline hold the tensor groups of each stage",
          "[tp][rank_generator]") {
  for (const World& world : kWorlds) {
    Groups expected;
    for (int first = 0; first < world.stage(); first += world.tp) {
      std::vector<int>& group = expected.emplace_back();
      for (int stage = 0; stage < world.size(); stage += world.stage()) {
        for (int i = 0; i < world.tp; ++i) group.push_back(stage + first + i);
      }
    }
    CHECK(RankGenerator(world.dense()).get_ranks("tp-pp") == expected);
  }
}

TEST_CASE("16 ranks in 4 stages of 2", "[tp][rank_generator]") {
  const RankGenerator generator({.tp = 2, .dp = 2, .pp = 4});
  CHECK(generator.get_ranks("tp") ==
        Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}});
  CHECK(generator.get_ranks("pp") ==
        Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}});
  CHECK(generator.get_ranks("dp") ==
        Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}});
}

TEST_CASE("the leftmost dimension of the order varies fastest", "[tp][rank_generator]") {
  const RankGenerator generator({.tp = 2, .dp = 3, .pp = 2}, "PP-tp-dp");
  CHECK(generator.get_ranks("pp").front() == std::vector<int>{0, 1});
  CHECK(generator.get_ranks("tp").front() == std::vector<int>{0, 2});
  CHECK(generator.get_ranks("dp").front() == std::vector<int>{0, 4, 8});
}

TEST_CASE("members stand in the order of dimensions, however the token spells it",
          "[tp][rank_generator]") {
  const RankGenerator generator({.tp = 2, .dp = 2, .cp = 2});
  CHECK(generator.get_ranks("dp-cp") == generator.get_ranks("cp-dp"));
  CHECK(generator.get_ranks("dp-cp").front() == std::vector<int>{0, 2, 4, 6});
}

TEST_CASE("every rank is in one group, which group_of finds", "[tp][rank_generator]") {
  const RankGenerator generator({.tp = 2, .ep = 3, .dp = 2, .pp = 2, .cp = 2}, "cp-tp-pp-ep-dp");
  for (const char* token :
       {"tp", "cp", "ep", "dp", "pp", "tp-pp", "dp-cp", "tp-ep-pp", "tp-cp-ep-dp-pp"}) {
    CAPTURE(token);
    std::vector<int> times(48);
    for (const std::vector<int>& group : generator.get_ranks(token)) {
      CHECK(std::ranges::is_sorted(group));
      for (const int rank : group) {
        ++times.at(static_cast<std::size_t>(rank));
        CHECK(generator.group_of(token, rank) == group);
      }
    }
    CHECK(times == std::vector<int>(48, 1));
  }
}

TEST_CASE("an order that does not fit is refused", "[tp][rank_generator]") {
  const auto refusal = [](const ParallelSizes& sizes, std::string_view order) {
    return error_of<CollectiveError>([&] { RankGenerator(sizes, order); });
  };
  CHECK_THAT(
      refusal({.tp = 2, .cp = 2}, "tp-dp-pp"),
      Says("KB-T003", "The size of (cp) is (2), but you haven'tspecified the order (tp-dp-pp)."));
  CHECK(refusal({.tp = 2}, "tp-dp-pp") == "no error");
  CHECK_THAT(refusal({}, "tp-xp"), Says("KB-T003", "'xp'", "'tp-xp'", "tp, cp, ep, dp, pp"));
  CHECK_THAT(refusal({}, "tp-dp-tp"), Says("KB-T003", "'tp'", "'tp-dp-tp'"));
  CHECK_THAT(refusal({.pp = 0}, "tp-pp"), Says("KB-T003", "(pp) is (0)"));
  CHECK_THAT(refusal({.tp = 1 << 20, .dp = 1 << 20}, "tp-dp"), Says("KB-T003", "(tp-dp)"));
  CHECK_THROWS_MATCHES(RankGenerator({}).get_ranks("tp-"), CollectiveError,
                       Says("KB-T003", "'tp-'", "tp, cp, ep, dp, pp"));
}

}  // namespace
}  // namespace kernbench::test::rank_generator_test
