// Tests the loads of experts: how many tokens each rank and expert gets, exactly.

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "test/parallel/expert_parallel_world.h"

namespace kernbench::test::expert_parallel_loads_test {
namespace {

using moe::LoadShape;
using moe::RoutingLoad;
using Integers = std::vector<std::int64_t>;

// Every share of the loads below is whole: 31 x 16 x 9 tokens of 8 ranks and 64 experts.
constexpr LoadShape kShape{.ranks = 8, .num_experts = 64, .top_k = 6, .tokens = 4464};
constexpr std::int64_t kAll = kShape.ranks * kShape.tokens;
constexpr std::int64_t kOnRank = kShape.num_experts / kShape.ranks;

Integers expert_loads_of(std::string_view name, const LoadShape& shape = kShape) {
  return moe::expert_loads(RoutingLoad::parse(name), shape);
}

Integers rank_loads_of(std::string_view name, const LoadShape& shape = kShape) {
  const Integers loads = expert_loads_of(name, shape);
  Integers of_ranks(static_cast<std::size_t>(shape.ranks));
  for (std::size_t e = 0; e < loads.size(); ++e) {
    of_ranks[e * of_ranks.size() / loads.size()] += loads[e];
  }
  return of_ranks;
}

double ranks_overload(std::string_view name, const LoadShape& shape = kShape) {
  return moe::overload_factor(rank_loads_of(name, shape));
}

LoadShape at_step(std::int64_t step) {
  LoadShape shape = kShape;
  shape.step = step;
  return shape;
}

TEST_CASE("the overload factor of each load is exact", "[expert_parallel][loads]") {
  CHECK(expert_loads_of("W0") == Integers(64, kAll * 6 / 64));
  CHECK(ranks_overload("W0") == 1);
  // Two experts, on two ranks, get half of the tokens; the other four choices of these tokens are
  // dealt out to 62 experts, and all of the other half to 64.
  const std::int64_t hot = kAll / 2 + 7 * (kAll / 2 * 4 / 62) + 8 * (kAll / 2 * 6 / 64);
  CHECK(ranks_overload("W1") == static_cast<double>(hot * 8) / static_cast<double>(kAll * 6));
  // A rank has all six choices of half of the tokens, and an eighth of the other half's.
  CHECK(ranks_overload("W2") == 4.5);
  CHECK(rank_loads_of("W2").front() == kAll / 2 * 6 + kAll / 2 * 6 / 8);
  CHECK(moe::overload_factor(expert_loads_of("W2")) == 4.5);
  CHECK(ranks_overload("W3") == 1);
  CHECK(moe::overload_factor(expert_loads_of("W3")) == 4.5);
  CHECK(ranks_overload("W4") == 1);
  CHECK(ranks_overload("W5") == 1);
  for (const std::int64_t step : {0, 3, 7, 8}) {
    const Integers loads = rank_loads_of("W6", at_step(step));
    CHECK(moe::overload_factor(loads) == 4.5);
    CHECK(std::ranges::max_element(loads) - loads.begin() == step % 8);
  }
  CHECK(ranks_overload("W7", at_step(0)) == 8);
  CHECK(ranks_overload("W7", at_step(1)) == 1);
  CHECK(ranks_overload("W7", at_step(4)) == 8);
}

TEST_CASE("ragged and idle sources have other numbers of tokens", "[expert_parallel][loads]") {
  const auto tokens = [](std::string_view name) {
    Integers of_ranks;
    for (int rank = 0; rank < 8; ++rank) {
      of_ranks.push_back(RoutingLoad::parse(name).tokens(kShape, rank));
    }
    return of_ranks;
  };
  CHECK(tokens("W0") == Integers(8, 4464));
  CHECK(tokens("W4") == Integers{992, 1984, 2976, 3968, 4960, 5952, 6944, 7936});
  CHECK(tokens("W5") == Integers{4464, 4464, 4464, 4464, 0, 0, 0, 0});
  CHECK(moe::overload_factor(tokens("W4")) == 16.0 / 9);
  CHECK(moe::overload_factor(tokens("W5")) == 2);
  CHECK(std::ranges::equal(expert_loads_of("W5"), Integers(64, kAll / 2 * 6 / 64)));
}

// Every shape has shares that are not whole, more choices than hot experts, or a rank alone.
TEST_CASE("each token has distinct experts, which follow from the load, seed, step, rank and token",
          "[expert_parallel][loads]") {
  for (const std::string name :
       {"W0", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "lognormal:0", "lognormal:1.5"}) {
    const RoutingLoad load = RoutingLoad::parse(name);
    for (const auto& [ranks, experts, top_k] :
         {std::tuple{1, 4, 4}, {2, 8, 3}, {4, 16, 16}, {3, 6, 5}, {8, 4, 2}}) {
      CAPTURE(name, ranks, experts, top_k);
      const LoadShape shape{ranks, experts, top_k, 41, 5, 0};
      std::int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Integers chosen = load.experts(shape, rank);
        REQUIRE(std::ssize(chosen) == load.tokens(shape, rank) * top_k);
        CHECK(load.experts(shape, rank) == chosen);
        for (auto token = chosen.begin(); token != chosen.end(); token += top_k) {
          const std::set<std::int64_t> distinct(token, token + top_k);
          REQUIRE(std::ssize(distinct) == top_k);
          REQUIRE(*distinct.begin() >= 0);
          REQUIRE(*distinct.rbegin() < experts);
        }
        sum += std::ssize(chosen);
      }
      const Integers loads = moe::expert_loads(load, shape);
      CHECK(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}) == sum);
    }
  }
}

TEST_CASE("seeds and steps draw other experts", "[expert_parallel][loads]") {
  for (const std::string name : {"W0", "W2", "lognormal:1"}) {
    const RoutingLoad load = RoutingLoad::parse(name);
    LoadShape shape{2, 16, 4, 64, 0, 0};
    const Integers first = load.experts(shape, 1);
    shape.seed = 1;
    CHECK(load.experts(shape, 1) != first);
    shape.seed = 0;
    shape.step = 1;
    CHECK(load.experts(shape, 1) != first);
  }
}

TEST_CASE("a larger sigma is a larger overload", "[expert_parallel][loads]") {
  const double none = moe::overload_factor(expert_loads_of("lognormal:0"));
  const double some = moe::overload_factor(expert_loads_of("lognormal:0.5"));
  const double more = moe::overload_factor(expert_loads_of("lognormal:2"));
  CHECK(none < 1.1);
  CHECK(none < some);
  CHECK(some < more);
}

std::string refusal(const std::string& text, const LoadShape& shape = {1, 4, 2, 3, 0, 0}) {
  return error_of<CollectiveError>([&] { RoutingLoad::parse(text).experts(shape, 0); });
}

TEST_CASE("loads that there are not are refused", "[expert_parallel][loads][errors]") {
  CHECK_THAT(refusal("W8"), Says("KB-C029", "there is no routing 'W8'; there are: W0 (balanced)"));
  CHECK_THAT(refusal("lognormal:-1"), Says("KB-C029", "SIGMA is a number from 0 on"));
  CHECK_THAT(refusal("lognormal:1x"), Says("KB-C029", "SIGMA is a number from 0 on"));
  CHECK_THAT(refusal("W0", {1, 4, 5, 3, 0, 0}), Says("KB-C029", "top_k 5 of 4 experts"));
  CHECK_THAT(refusal("trace:no/such/file"),
             Says("KB-C029", "routing trace 'no/such/file' cannot be read"));
}

class TraceFile {
 public:
  explicit TraceFile(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "kernbench_trace_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(folder_ / "trace.txt") << text;
  }
  ~TraceFile() { std::filesystem::remove_all(folder_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  std::string routing() const { return "trace:" + (folder_ / "trace.txt").string(); }

 private:
  std::filesystem::path folder_;
};

TEST_CASE("a trace is read rank by rank and step by step", "[expert_parallel][loads]") {
  const TraceFile file("# two experts a token\n0 1\n1,2\n\n2 3  # the third token\n3\t0\n0, 2\n");
  const RoutingLoad load = RoutingLoad::parse(file.routing());
  CHECK(load.experts({2, 4, 2, 2, 0, 0}, 0) == Integers{0, 1, 1, 2});
  CHECK(load.experts({2, 4, 2, 2, 0, 0}, 1) == Integers{2, 3, 3, 0});
  CHECK(load.experts({2, 4, 2, 2, 0, 1}, 0) == Integers{0, 2, 0, 1});
}

TEST_CASE("a malformed trace names its line", "[expert_parallel][loads][errors]") {
  const auto of = [](const std::string& text) { return refusal(TraceFile(text).routing()); };
  CHECK_THAT(of("0 1\n1 x\n"), Says("KB-C029", "trace.txt:2: '1 x' is no list of experts"));
  CHECK_THAT(of("0 1\n1 2.5\n"), Says("KB-C029", "trace.txt:2: '1 2.5' is no list of experts"));
  CHECK_THAT(of("0 1\n\n1 2 3\n"), Says("KB-C029", "trace.txt:3: 3 experts; each token has 2"));
  CHECK_THAT(of("0 1\n2 2\n"), Says("KB-C029", "trace.txt:2: expert 2 is there twice"));
  CHECK_THAT(of("0 1\n1 4\n"), Says("KB-C029", "trace.txt:2: expert 4; there are 0 to 3"));
  CHECK_THAT(of("-1 1\n"), Says("KB-C029", "trace.txt:1: expert -1; there are 0 to 3"));
  CHECK_THAT(of("# nothing\n\n"), Says("KB-C029", "has no token"));
}

}  // namespace
}  // namespace kernbench::test::expert_parallel_loads_test
