// A pipeline's step as events, against the closed forms of runtime/pipelining/action_lists.h.

#include "benches/pipeline/event_program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "runtime/pipelining/action_lists.h"

namespace kernbench::test::event_program_test {
namespace {

using namespace benches::pipeline;
using namespace distributed::pipelining;

constexpr double kForward = 7;
constexpr double kInput = 9;
constexpr double kWeight = 5;
constexpr double kBackward = 14;

// Stages that are alike, and so are their micro-batches.
ProgramTimes run(ActionLists (*lists)(const PipelineSize&), const PipelineSize& size,
                 double share = 1, const MessageTimes& message = {}) {
  const StageTimes times{.forward = kForward * share,
                         .backward = kBackward * share,
                         .input = kInput * share,
                         .weight = kWeight * share};
  const std::vector<TimesOfStage> stages(static_cast<std::size_t>(size.stages),
                                         {.first = times, .later = times, .last = times});
  return run_program(lists(size), stages, message);
}

TEST_CASE("a program's step and bubble are those of its schedule's formula", "[pipeline]") {
  const int p = GENERATE(2, 3, 4);
  const int m = GENERATE(4, 8, 12);
  CAPTURE(p, m);
  const PipelineSize one{.stages = p, .ranks = p, .microbatches = m};
  const double work = m * (kForward + kBackward);
  for (const auto lists : {gpipe, one_f_one_b}) {
    const ProgramTimes times = run(lists, one);
    CHECK(times.end == Approx(work + (p - 1) * (kForward + kBackward)));
    CHECK(times.bubble == Approx(times.end - work));
    CHECK(times.ends[0] == times.end);  // the first stage is the last to run backward
    CHECK(std::ranges::is_sorted(times.ends, std::greater<>()));
  }
  if (m % p == 0) {
    const ProgramTimes times =
        run(interleaved, {.stages = 2 * p, .ranks = p, .microbatches = m}, 0.5);
    CHECK(times.end == Approx(work + (p - 1) * (kForward + kBackward) / 2));
  }
  if (m >= p) {
    const ProgramTimes times = run(zb_h1, one);
    CHECK(times.end == Approx(work + (p - 1) * (kInput + std::max(0.0, kForward - kWeight))));
  }
  if (m >= 2 * p - 1) {
    CHECK(run(zb_h2, one).end == Approx(work + (p - 1) * kForward));
  }
}

// Until the first micro-batch is at the last stage, and the last one's gradient at the first, a
// message stands between two stages; in between it hides behind a computation.
TEST_CASE("messages lengthen a program where no computation hides them", "[pipeline]") {
  const PipelineSize size{.stages = 4, .ranks = 4, .microbatches = 8};
  const double alone = run(gpipe, size).end;
  CHECK(run(gpipe, size, 1, {.send = 2}).end == Approx(alone + 2 * 3 * 2));
  // Each computation of the first rank but one of the last follows one that sends or receives.
  CHECK(run(gpipe, size, 1, {.issue = 1}).end > alone);
}

// A rank's host launches its 2 m computations one after the other.  The last backward of each stage
// is launched by then, and waits for that of the stage behind it.
TEST_CASE("a program does not end before its hosts have launched it", "[pipeline]") {
  constexpr double kLaunch = 1000;
  constexpr int kMicrobatches = 4;
  const int p = GENERATE(1, 2, 3);
  const StageTimes times{.forward = kForward, .backward = kBackward};
  const StageTimes host{.forward = kLaunch, .backward = kLaunch};
  const std::vector<TimesOfStage> stages(
      static_cast<std::size_t>(p), {.first = times, .later = times, .last = times, .host = host});
  const PipelineSize size{.stages = p, .ranks = p, .microbatches = kMicrobatches};
  const double launched = 2 * kMicrobatches * kLaunch;
  const ProgramTimes done = run_program(gpipe(size), stages, {});
  CHECK(done.end == Approx(launched + (p - 1) * kBackward));
  CHECK(done.launched == std::vector<double>(static_cast<std::size_t>(p), launched));
}

// The first micro-batch has no gradients to add to, and the last one's are sent.
TEST_CASE("a program takes the times of the first and the last micro-batch", "[pipeline]") {
  const StageTimes times{.forward = kForward, .backward = kBackward};
  std::vector<TimesOfStage> stages(2, {.first = times, .later = times, .last = times});
  const PipelineSize size{.stages = 2, .ranks = 2, .microbatches = 4};
  const double alike = run_program(gpipe(size), stages, {}).end;
  for (TimesOfStage& stage : stages) stage.first.backward -= 3;
  for (TimesOfStage& stage : stages) stage.last.backward += 5;
  // The last stage begins with the first one, and both stages' last ones follow each other.
  CHECK(run_program(gpipe(size), stages, {}).end == Approx(alike - 3 + 2 * 5));
}

}  // namespace
}  // namespace kernbench::test::event_program_test
