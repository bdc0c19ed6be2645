#include "sim_engine/values/step_graph.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>

#include "sim_engine/base/check.h"

namespace kernbench::sim::step_graph_test {

namespace {

// Records what happens, and what must not.
class RecordedWork : public StepWork {
 public:
  explicit RecordedWork(std::size_t steps) : needs(steps), parts_done(steps), ended(steps) {}

  void begin(Step step) override {
    const int others = ++in_turn;
    for (const Step needed : needs[step]) wrong += !ended[needed];
    wrong += others != 1;
    begun.push_back(step);
    --in_turn;
  }
  void end(Step step) override {
    const int others = ++in_turn;
    wrong += others != 1;
    ended[step] = true;
    --in_turn;
  }
  void run(Step step, std::int64_t part, int thread) override {
    ++parts_done[step];
    threads_seen |= 1u << thread;
    if (step == fails && part == 0) throw std::runtime_error("step failed");
  }

  std::vector<std::vector<Step>> needs;
  std::vector<std::atomic<int>> parts_done;
  std::vector<char> ended;
  std::vector<Step> begun;
  std::atomic<int> in_turn = 0;
  std::atomic<int> wrong = 0;
  std::atomic<unsigned> threads_seen = 0;
  Step fails = 0xffffffff;
};

void add_needs(StepGraph& graph, const RecordedWork& work) {
  for (StepWork::Step step = 0; step < work.needs.size(); ++step) {
    for (const StepWork::Step needed : work.needs[step]) graph.add_need(step, needed);
  }
}

}  // namespace

TEST_CASE("every part of every step is done once, after what the step needs", "[step_graph]") {
  const int threads = GENERATE(1, 2, 3, 8);
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    constexpr std::size_t kSteps = 300;
    RecordedWork work(kSteps);
    StepGraph graph;
    std::vector<int> parts;
    for (std::size_t step = 0; step < kSteps; ++step) {
      parts.push_back(static_cast<int>(random() % 4) + 1);
      graph.add(parts.back(), static_cast<std::int64_t>(random() % 30'000));
      for (unsigned i = 0; step > 0 && i < random() % 4; ++i) {
        work.needs[step].push_back(static_cast<StepWork::Step>(random() % step));
      }
    }
    add_needs(graph, work);
    graph.run(threads, work);
    CHECK(work.wrong == 0);
    CHECK(work.begun.size() == kSteps);
    for (std::size_t step = 0; step < kSteps; ++step) {
      REQUIRE(work.parts_done[step] == parts[step]);
      REQUIRE(work.ended[step]);
    }
  }
}

TEST_CASE("one thread takes steps in order as far as they are ready", "[step_graph]") {
  RecordedWork work(4);
  work.needs = {{3}, {}, {}, {}};
  StepGraph graph;
  for (int i = 0; i < 4; ++i) graph.add(1, 1'000'000);
  add_needs(graph, work);
  graph.run(1, work);
  CHECK(work.begun == std::vector<StepWork::Step>{1, 2, 3, 0});
  CHECK(work.threads_seen == 1);
}

TEST_CASE("threads that find nothing to do end", "[step_graph]") {
  RecordedWork work(1);
  StepGraph graph;
  graph.add(1, 1);
  graph.run(8, work);
  CHECK(work.ended[0]);
  RecordedWork nothing(0);
  StepGraph empty;
  empty.run(3, nothing);
  CHECK(nothing.begun.empty());
}

TEST_CASE("after a failure what does not need it is done still", "[step_graph]") {
  const int threads = GENERATE(1, 4);
  RecordedWork work(6);
  work.fails = 1;
  work.needs = {{}, {0}, {1}, {}, {3}, {2, 4}};
  StepGraph graph;
  for (int i = 0; i < 6; ++i) graph.add(3, 100'000);
  add_needs(graph, work);
  CHECK_THROWS_WITH(graph.run(threads, work), "step failed");
  CHECK(std::vector<char>(work.ended) == std::vector<char>{1, 0, 0, 1, 1, 0});
  CHECK(work.parts_done[4] == 3);
  CHECK(work.parts_done[1] == 3);
  CHECK(work.parts_done[2] == 0);
}

TEST_CASE("steps that need each other are an error of ours", "[step_graph]") {
  RecordedWork work(2);
  StepGraph graph;
  graph.add(1, 1);
  graph.add(1, 1);
  graph.add_need(0, 1);
  graph.add_need(1, 0);
  CHECK_THROWS_AS(graph.run(2, work), InternalError);
}

}  // namespace kernbench::sim::step_graph_test
