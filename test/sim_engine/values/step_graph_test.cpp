#include "sim_engine/values/step_graph.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>
#include <vector>

#include "sim_engine/base/check.h"

namespace kernbench::sim::step_graph_test {

namespace {

constexpr std::size_t kSteps = 300;

// Steps that need up to three earlier ones, at random; records what is done, and what must not be.
class RandomWork : public StepWork {
 public:
  explicit RandomWork(unsigned seed) {
    std::mt19937 random(seed);
    for (std::size_t step = 0; step < kSteps; ++step) {
      parts.push_back(static_cast<int>(random() % 4) + 1);
      graph.add(parts.back(), static_cast<std::int64_t>(random() % 30'000));
      for (unsigned i = 0; step > 0 && i < random() % 4; ++i) {
        needs[step].push_back(static_cast<Step>(random() % step));
        graph.add_need(static_cast<Step>(step), needs[step].back());
      }
    }
  }

  void begin(Step step) override {
    const int others = ++in_turn;
    for (const Step needed : needs[step]) wrong += !ended[needed];
    wrong += others != 1;
    --in_turn;
  }
  void end(Step step) override {
    wrong += ++in_turn != 1;
    ended[step] = true;
    --in_turn;
  }
  void run(Step step, std::int64_t part, int) override {
    ++parts_done[step];
    if (step == fails && part == 0) throw std::runtime_error("step failed");
  }

  StepGraph graph;
  std::vector<int> parts;
  std::array<std::vector<Step>, kSteps> needs;
  std::array<std::atomic<int>, kSteps> parts_done{};
  std::array<bool, kSteps> ended{};
  std::atomic<int> in_turn = 0;
  std::atomic<int> wrong = 0;
  Step fails = kSteps;
};

}  // namespace

TEST_CASE("every part of every step is done once, after what the step needs, unless that failed",
          "[step_graph]") {
  const int threads = GENERATE(1, 2, 3, 8);
  for (unsigned seed = 0; seed < 20; ++seed) {
    RandomWork work(seed);
    if (seed % 2 == 0) {
      work.graph.run(threads, work);
    } else {
      work.fails = 10 * seed;
      CHECK_THROWS_WITH(work.graph.run(threads, work), "step failed");
    }
    CHECK(work.wrong == 0);
    for (std::size_t step = 0; step < kSteps; ++step) {
      const bool can_begin =
          std::ranges::all_of(work.needs[step], [&](auto needed) { return work.ended[needed]; });
      REQUIRE(work.parts_done[step] == (can_begin ? work.parts[step] : 0));
      REQUIRE(work.ended[step] == (can_begin && step != work.fails));
    }
  }
}

TEST_CASE("steps that need each other are an error of ours", "[step_graph]") {
  RandomWork work(1);
  work.graph.add_need(0, 1);
  work.graph.add_need(1, 0);
  CHECK_THROWS_AS(work.graph.run(2, work), InternalError);
}

}  // namespace kernbench::sim::step_graph_test
