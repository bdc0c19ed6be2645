// Tests the times of pipeline schedules against their closed forms: p stages, m micro-batches, f
// and b of a stage's forward and backward, c the latency of a message.

#include <algorithm>
#include <array>

#include "runtime/pipelining/schedule_check.h"
#include "test/parallel/pipeline_world.h"

namespace kernbench::test::pipeline_times_test {
namespace {

using pipelining::ActionLists;
using pipelining::PipelineSize;
using pipelining::PipelineStage;

struct Pipeline {
  PipelineSize size;
  StageTimes times;
  std::int64_t latency = 0;  // ns
};

using pipelining::ActionTime;

// The computations of a step, by rank.
struct Measured {
  double time = 0;  // ns
  std::vector<std::vector<ActionTime>> ranks;
};

Measured measure(const Pipeline& pipeline, const ActionLists& lists) {
  const int ranks = pipeline.size.ranks;
  Measured measured{.time = 0,
                    .ranks = std::vector<std::vector<ActionTime>>(static_cast<std::size_t>(ranks))};
  RuntimeContext torch(timed_pipeline_machine(ranks, Time{pipeline.latency * 1000}),
                       {.data = false});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, ranks, [&](int rank) {
    const Tensor value = torch.zeros({1, 1}, kOnOnePe);
    std::vector<PipelineStage> stages;
    for (int i = 0; i < pipeline.size.stages; ++i) {
      const auto& list = lists[static_cast<std::size_t>(rank)];
      if (std::ranges::find(list, i, &pipelining::Action::stage) == list.end()) continue;
      stages.emplace_back(
          torch, TimedStage(torch, pipeline.times), i, pipeline.size.stages,
          pipelining::PipelineStageOptions{.input_args = value, .output_args = value});
    }
    const auto loss = [](const Tensor& y, const Tensor&) { return y; };
    const int microbatches = pipeline.size.microbatches;
    pipelining::PipelineScheduleRuntime schedule(stages, microbatches, loss, lists);
    const Tensor batch = torch.zeros({microbatches, 1}, kOnOnePe);
    schedule.step(batch, {.target = batch});
    torch.ahbm.synchronize();
    measured.ranks[static_cast<std::size_t>(rank)] = schedule.last_step();
  });
  measured.time = to_ns(torch.engine().now());
  return measured;
}

// Returns the time of a step, in ns.
double step_time(const Pipeline& pipeline, const ActionLists& lists) {
  return measure(pipeline, lists).time;
}

// Returns the time between a rank's first computation and its last one in which it does nothing.
Time idle_within(const std::vector<ActionTime>& rank) {
  Time idle = rank.back().end - rank.front().begin;
  for (const ActionTime& each : rank) idle -= each.duration();
  return idle;
}

TEST_CASE("GPipe and 1F1B take (m + p - 1)(f + b) without latency", "[pipelining][timing]") {
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 3, 4, 7, 8, 16}) {
      const PipelineSize size{.stages = p, .ranks = p, .microbatches = m};
      const Pipeline pipeline{.size = size, .times = {.forward = 30, .backward = 50}};
      CAPTURE(p, m);
      CHECK(step_time(pipeline, gpipe(size)) == (m + p - 1) * 80);
      CHECK(step_time(pipeline, one_f_one_b(size)) == (m + p - 1) * 80);
    }
  }
}

// The k-th round waits for a message to go down and up again once more.
TEST_CASE("each round of 1F1B pays latency: c (2 (p - 1) k + 2 (p - 2)) for m = k p",
          "[pipelining][timing]") {
  for (const int p : {2, 3, 4, 6}) {
    for (const int k : {1, 2, 3}) {
      for (const int c : {1, 10, 30, 200}) {
        const PipelineSize size{.stages = p, .ranks = p, .microbatches = k * p};
        const Pipeline pipeline{
            .size = size, .times = {.forward = 30, .backward = 50}, .latency = c};
        CAPTURE(p, k, c);
        const std::int64_t expected = (k * p + p - 1) * 80 + c * (2 * (p - 1) * k + 2 * (p - 2));
        CHECK(step_time(pipeline, add_messages(one_f_one_b(size), 2)) ==
              static_cast<double>(expected));
        // Where a message takes longer than a computation, one receive ahead may not be enough.
        if (c <= 30) CHECK(step_time(pipeline, one_f_one_b(size)) == static_cast<double>(expected));
      }
    }
  }
}

TEST_CASE("twice the warm-up pays latency at the ends alone", "[pipelining][timing]") {
  for (const int p : {2, 3, 4, 6}) {
    for (const int m : {p, 2 * p, 3 * p + 1}) {
      for (const int c : {1, 10, 30}) {
        const PipelineSize size{.stages = p, .ranks = p, .microbatches = m};
        const Pipeline pipeline{
            .size = size, .times = {.forward = 30, .backward = 50}, .latency = c};
        CAPTURE(p, m, c);
        CHECK(step_time(pipeline, eager_one_f_one_b(size)) == (m + p - 1) * 80 + 2 * (p - 1) * c);
      }
    }
  }
}

TEST_CASE("GPipe pays latency at the ends alone", "[pipelining][timing]") {
  for (const int p : {2, 4}) {
    const PipelineSize size{.stages = p, .ranks = p, .microbatches = 2 * p};
    const Pipeline pipeline{.size = size, .times = {.forward = 30, .backward = 50}, .latency = 20};
    CHECK(step_time(pipeline, gpipe(size)) == (3 * p - 1) * 80 + 2 * (p - 1) * 20);
  }
}

// f and b are of a rank's v stages together.
TEST_CASE("interleaved takes m (f + b) + (p - 1)(f + b) / v, and 2 (v p - 1) c for c <= f / v",
          "[pipelining][timing]") {
  for (const int p : {2, 3, 4}) {
    for (const int v : {2, 3, 4}) {
      for (const int m : {p, 2 * p, 3 * p}) {
        for (const int c : {0, 7, 30}) {
          const PipelineSize size{.stages = p * v, .ranks = p, .microbatches = m};
          const Pipeline pipeline{
              .size = size, .times = {.forward = 30, .backward = 50}, .latency = c};
          CAPTURE(p, v, m, c);
          CHECK(step_time(pipeline, interleaved(size)) ==
                m * 80 * v + (p - 1) * 80 + 2 * (v * p - 1) * c);
        }
      }
    }
  }
}

TEST_CASE("peaks of activations in micro-batches", "[pipelining]") {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 8, 16}) {
      const PipelineSize size{.stages = p, .ranks = p, .microbatches = m};
      const auto all = check_schedule(add_messages(gpipe(size)), m).peaks;
      const auto few = check_schedule(add_messages(one_f_one_b(size)), m).peaks;
      for (int s = 0; s < p; ++s) {
        CAPTURE(p, m, s);
        CHECK(all.at(static_cast<std::size_t>(s)) == m);
        CHECK(few.at(static_cast<std::size_t>(s)) == std::min(m, p - s));
      }
    }
  }
}

TEST_CASE("peaks of interleaved ranks, in stages", "[pipelining]") {
  for (const int p : {2, 3, 4}) {
    for (const int v : {2, 3, 4}) {
      for (const int m : {p, 2 * p, 4 * p}) {
        const PipelineSize size{.stages = p * v, .ranks = p, .microbatches = m};
        const auto checked = check_schedule(add_messages(interleaved(size)), m);
        for (int rank = 0; rank < p; ++rank) {
          CAPTURE(p, v, m, rank);
          CHECK(checked.peaks_of_ranks.at(static_cast<std::size_t>(rank)) ==
                std::min(m * v, 2 * (p - 1 - rank) + (v - 1) * p + 1));
        }
      }
    }
  }
}

// Durations of forward, of backward for the input and for the weights, as the sources of the forms
// have them.
constexpr std::array kThreeTimes = {std::array{40, 40, 40}, std::array{40, 60, 30},
                                    std::array{30, 50, 20}, std::array{50, 40, 40},
                                    std::array{40, 50, 90}};

TEST_CASE("zero-bubble schedules take m (f + i + w) and little more", "[pipelining][timing]") {
  for (const auto [f, i, w] : kThreeTimes) {
    for (const int p : {1, 2, 3, 4, 6}) {
      for (const int m : {2 * p, 2 * p + 1, 4 * p}) {
        const PipelineSize size{.stages = p, .ranks = p, .microbatches = m};
        const Pipeline pipeline{.size = size,
                                .times = {.forward = f, .backward = i + w, .weight = w}};
        CAPTURE(f, i, w, p, m);
        CHECK(step_time(pipeline, zb_h1(size)) ==
              m * (f + i + w) + (p - 1) * (i + std::max(0, f - w)));
        if (i >= f + w) continue;  // the next forward would have to wait for a gradient
        const Measured measured = measure(pipeline, zb_h2(size));
        CHECK(measured.time == m * (f + i + w) + (p - 1) * f);
        for (std::size_t rank = 0; rank < measured.ranks.size(); ++rank) {
          CAPTURE(rank);
          const int behind = p - 1 - static_cast<int>(rank);  // ranks
          CHECK(idle_within(measured.ranks[rank]) ==
                Time{behind * std::max({0, i - f, f + i - 2 * w}) * 1000});
        }
      }
    }
  }
}

// The first stage's input has no gradient: all of its backward is for the weights.
TEST_CASE("last_step() has the time of each computation", "[pipelining][timing]") {
  const PipelineSize size{.stages = 3, .ranks = 3, .microbatches = 4};
  const Pipeline pipeline{
      .size = size, .times = {.forward = 30, .backward = 70, .weight = 20}, .latency = 10};
  const auto expected = [](const pipelining::Action& action) {
    const bool is_first = action.stage == 0;
    switch (action.kind) {
      case pipelining::ActionKind::forward:
        return Time{30'000};
      case pipelining::ActionKind::backward:
        return Time{70'000};
      case pipelining::ActionKind::backward_input:
        return is_first ? Time{0} : Time{50'000};
      default:
        return is_first ? Time{70'000} : Time{20'000};
    }
  };
  for (const ActionLists& lists : {one_f_one_b(size), zb_h1(size)}) {
    const Measured measured = measure(pipeline, lists);
    Time end{0};
    for (std::size_t rank = 0; rank < measured.ranks.size(); ++rank) {
      std::vector<pipelining::Action> done;
      for (const ActionTime& each : measured.ranks[rank]) {
        CAPTURE(to_string(each.action));
        CHECK(each.duration() == expected(each.action));
        done.push_back(each.action);
        end = std::max(end, each.end);
      }
      CHECK(done == lists[rank]);
    }
    CHECK(to_ns(end) == measured.time);
  }
}

// Rank r begins when the first micro-batch has come down to it.
TEST_CASE("ranks of ZBV are never idle once they have begun, if f = i = w",
          "[pipelining][timing]") {
  for (const int p : {1, 2, 3, 4}) {
    for (const int m : {2 * p - 1, 2 * p, 4 * p + 1}) {
      const PipelineSize size{.stages = 2 * p, .ranks = p, .microbatches = m};
      const Pipeline pipeline{.size = size, .times = {.forward = 40, .backward = 80, .weight = 40}};
      CAPTURE(p, m);
      const Measured measured = measure(pipeline, zbv_zero_bubble(size));
      CHECK(measured.time == 6 * m * 40 + (p - 1) * 40);
      for (const auto& rank : measured.ranks) CHECK(idle_within(rank) == Time{0});
    }
  }
}

TEST_CASE("peaks of zero-bubble schedules", "[pipelining]") {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 8, 16}) {
      const PipelineSize size{.stages = p, .ranks = p, .microbatches = m};
      const auto h1 = check_schedule(add_messages(zb_h1(size)), m);
      const auto h2 = check_schedule(add_messages(zb_h2(size)), m);
      const auto eager = check_schedule(add_messages(eager_one_f_one_b(size)), m);
      for (int s = 0; s < p; ++s) {
        CAPTURE(p, m, s);
        const auto at = [s](const std::vector<int>& peaks) {
          return peaks.at(static_cast<std::size_t>(s));
        };
        CHECK(at(h1.peaks) == std::min(m, p - s));
        CHECK(at(h2.peaks) == std::min(m, 2 * (p - s) - 1));
        CHECK(at(eager.peaks) == std::min(m, 2 * (p - s) - 1));
        // The halves that wait for their weights count with the one that has just been added.
        CHECK(at(h1.peaks_of_weights) == std::min(m, s + 1));
        CHECK(at(h2.peaks_of_weights) == std::min(m, 2 * s + 1));
      }
    }
  }
}

}  // namespace
}  // namespace kernbench::test::pipeline_times_test
