// A pipeline's step as events, against the closed forms of runtime/pipelining/action_lists.h.

#include "benches/pipeline/event_program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "runtime/pipelining/action_lists.h"

namespace kernbench::test::event_program_test {
namespace {

using namespace benches::pipeline;
using namespace distributed::pipelining;

constexpr Time kForward{14};
constexpr Time kInput{18};
constexpr Time kWeight{10};
constexpr Time kBackward{28};

using Lists = ActionLists (*)(const PipelineSize&);

// The host launches it at once.
Cost cost_of(Time duration, const MessageTimes& message) {
  return {.idle = message.host_leg + duration, .queued = duration};
}

// Stages that are alike, and so are their micro-batches; each is one of so many of a rank.
std::vector<CostsOfStage> alike(const PipelineSize& size, const MessageTimes& message = {}) {
  const std::int64_t share = size.stages / size.ranks;
  const CostsOfPass pass{.forward = cost_of(kForward / share, message),
                         .backward = cost_of(kBackward / share, message),
                         .input = cost_of(kInput / share, message),
                         .weight = cost_of(kWeight / share, message)};
  const CostsOfStage stage{
      .first = pass, .later = pass, .last = pass, .gradients = {}, .optimizer = {}};
  return std::vector<CostsOfStage>(static_cast<std::size_t>(size.stages), stage);
}

ProgramTimes run(Lists lists, const PipelineSize& size, const MessageTimes& message = {}) {
  return run_program(add_messages(lists(size)), alike(size, message), message);
}

TEST_CASE("a program's step and bubble are those of its schedule's formula", "[pipeline]") {
  const int p = GENERATE(2, 3, 4);
  const int m = GENERATE(4, 8, 12);
  CAPTURE(p, m);
  const PipelineSize one{.stages = p, .ranks = p, .microbatches = m};
  const Time work = m * (kForward + kBackward);
  for (const auto lists : {gpipe, one_f_one_b}) {
    const ProgramTimes times = run(lists, one);
    CHECK(times.computed == work + (p - 1) * (kForward + kBackward));
    CHECK(times.bubble == times.computed - work);
    CHECK(times.step == times.computed);
  }
  if (m % p == 0) {
    CHECK(run(interleaved, {.stages = 2 * p, .ranks = p, .microbatches = m}).step ==
          work + (p - 1) * (kForward + kBackward) / 2);
  }
  if (m >= p) {
    CHECK(run(zb_h1, one).step ==
          work + (p - 1) * (kInput + std::max(Time{0}, kForward - kWeight)));
  }
  if (m >= 2 * p - 1) CHECK(run(zb_h2, one).step == work + (p - 1) * kForward);
}

// Until the first micro-batch is at the last stage, and the last one's gradient at the first, a
// message stands between two stages; in between it hides behind a computation.
TEST_CASE("messages lengthen a program where no computation hides them", "[pipeline]") {
  const PipelineSize size{.stages = 4, .ranks = 4, .microbatches = 8};
  constexpr Time kTransfer{2};
  CHECK(run(gpipe, size, {.transfer = kTransfer, .occupied = kTransfer}).step ==
        run(gpipe, size).step + 2 * 3 * kTransfer);
}

// Two replicas send at a time at first, so that the second one is late, and not held up by the
// first one any more until they have reduced gradients: each stage's last ones, which are sent on.
TEST_CASE("replicas that have missed each other share no link", "[pipeline]") {
  const int p = GENERATE(2, 3, 4);
  const PipelineSize size{.stages = p, .ranks = p, .microbatches = 4};
  const MessageTimes message{.transfer = Time{5}, .occupied = Time{3}};
  const ActionLists lists = add_messages(gpipe(size));
  CHECK(run_program(lists, alike(size), message, 2).step ==
        run_program(lists, alike(size), message, 1).step + p * message.occupied);
}

// In gpipe the last stage's gradients are there first, by a backward for each stage before it.
TEST_CASE("gradients are reduced after their stage's last backward, and optimizers may meet",
          "[pipeline]") {
  const int p = GENERATE(2, 3, 4);
  const PipelineSize size{.stages = p, .ranks = p, .microbatches = 4};
  constexpr Time kReduction{11};
  constexpr Time kOptimizer{500};  // of the last stage
  std::vector<CostsOfStage> stages = alike(size);
  for (CostsOfStage& stage : stages) stage.reduction = kReduction;
  const ActionLists lists = add_messages(gpipe(size));
  const Time computed = run(gpipe, size).step;
  CHECK(run_program(lists, stages, {}).step == computed + kReduction);
  stages.back().optimizer = cost_of(kOptimizer, {});
  CHECK(run_program(lists, stages, {}).step ==
        computed + kReduction + kOptimizer - (p - 1) * kBackward);
  CHECK(run_program(lists, stages, {}, 1, true).step == computed + kReduction + kOptimizer);
}

TEST_CASE("a whole backward takes its halves one after the other", "[pipeline]") {
  const Cost input{.launching = Time{4}, .idle = Time{9}, .queued = Time{8}};
  const Cost weight{.launching = Time{10}, .idle = Time{12}, .queued = Time{3}};
  for (int lead = 0; lead < 20; ++lead) {
    const Clocks at{.host = Time{lead}, .device = Time{10}};
    CHECK(input.then(weight).after(at).host == weight.after(input.after(at)).host);
    CHECK(input.then(weight).after(at).device == weight.after(input.after(at)).device);
  }
}

// A computation behind a message is launched when the host knows of the one before it, and begins a
// leg later.  All do so but the last stage's first backward.
TEST_CASE("a host that waits for its device before a message is not ahead of it", "[pipeline]") {
  const int m = GENERATE(2, 5);
  constexpr Time kLeg{3};
  CHECK(run(gpipe, {.stages = 2, .ranks = 2, .microbatches = m}, {.host_leg = kLeg}).step ==
        (m + 1) * (kForward + kBackward) + 4 * m * kLeg);
}

struct Launch {
  Time issue{0};  // of the host, before it
  Time duration{0};
};

Clocks play(const std::vector<Launch>& launches, Clocks clocks) {
  for (const Launch& launch : launches) {
    clocks.host += launch.issue;
    clocks.device = std::max(clocks.device, clocks.host) + launch.duration;
  }
  return clocks;
}

// Its cost is measured with a device that waits for the host, and with one that never does.
TEST_CASE("a cost says when launches are done, whatever the host is ahead by", "[pipeline]") {
  std::mt19937 random(1);
  const auto draw = [&](int most) { return Time{static_cast<int>(random() % most)}; };
  constexpr Time kLate{1'000'000};
  for (int round = 0; round < 200; ++round) {
    std::vector<Launch> launches(1 + random() % 8);
    for (Launch& launch : launches) launch = {draw(10), draw(20)};
    const Clocks idle = play(launches, {});
    const Cost cost{.launching = idle.host,
                    .idle = idle.device,
                    .queued = play(launches, {.device = kLate}).device - kLate};
    for (int lead = 0; lead < 100; lead += 7) {
      const Clocks at{.host = Time{round}, .device = Time{round + lead}};
      const Clocks played = play(launches, at);
      CHECK(cost.after(at).host == played.host);
      CHECK(cost.after(at).device == played.device);
    }
  }
}

// The first micro-batch has no gradients to add to, and the last one's are sent.
TEST_CASE("a program takes the times of the first and the last micro-batch", "[pipeline]") {
  const PipelineSize size{.stages = 2, .ranks = 2, .microbatches = 4};
  std::vector<CostsOfStage> stages = alike(size);
  for (CostsOfStage& stage : stages) {
    stage.first.backward = cost_of(kBackward - Time{3}, {});
    stage.last.backward = cost_of(kBackward + Time{5}, {});
  }
  // The last stage begins with the first one, and both stages' last ones follow each other.
  CHECK(run_program(add_messages(gpipe(size)), stages, {}).step ==
        run(gpipe, size).step - Time{3} + 2 * Time{5});
}

// The gradients of both of a rank's stages come before their optimizer, whose host has launched
// them by then.
TEST_CASE("a step ends with the optimizer of a rank's stages", "[pipeline]") {
  const PipelineSize size{.stages = 2, .ranks = 1, .microbatches = 2};
  std::vector<CostsOfStage> stages = alike(size);
  for (CostsOfStage& stage : stages) {
    stage.gradients = {.launching = Time{100}, .idle = Time{101}, .queued = Time{1}};
    stage.optimizer = {.launching = Time{1}, .idle = Time{1000}, .queued = Time{999}};
  }
  const ProgramTimes times = run_program(add_messages(interleaved(size)), stages, {});
  CHECK(times.computed == 2 * (kForward + kBackward));
  CHECK(times.step == Time{2 * 100 + 1000 + 999});
}

}  // namespace
}  // namespace kernbench::test::event_program_test
