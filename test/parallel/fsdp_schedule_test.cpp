// Tests what fully_shard sends, in which order and when, against TRAINING's table of schedules and
// times in closed form.

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/simulation/run_log.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "test/parallel/fsdp_world.h"

namespace kernbench::test::fsdp_schedule_test {
namespace {

using runtime::RunSpan;

// A collective of rank 0, with the bytes that its ranks have of it together.
struct Call {
  std::string name;
  Bytes bytes = 0;
  Time start{0};
  Time end{0};
};

std::vector<Call> calls_of(RuntimeContext& torch, int ranks, std::size_t first = 0) {
  std::vector<Call> calls;
  const auto& spans = simulation_of(torch).run_log()->spans();
  for (std::size_t i = first; i < spans.size(); ++i) {
    const RunSpan& span = spans[i];
    if (span.kind != RunSpan::Kind::collective || span.rank != 0 || span.bytes == 0) continue;
    calls.push_back({span.name, span.bytes * ranks, span.start, span.end});
  }
  return calls;
}

std::string to_text(const std::vector<Call>& calls) {
  std::string text;
  for (const Call& call : calls) {
    const bool gathers = call.name == "all_gather_into_tensor";
    const bool scatters = call.name == "reduce_scatter_tensor";
    text += fmt::format("{} {}, ", gathers ? "AG" : scatters ? "RS" : call.name, call.bytes);
  }
  return text;
}

// Layers whose weights have as many rows as numbered, so that bytes tell which group a collective
// is of.
nn::Sequential layers(const RuntimeContext& torch, const std::vector<std::int64_t>& rows) {
  const nn::Sequential model(std::make_shared<nn::SequentialImpl>());
  std::int64_t in = 1;
  for (const std::int64_t out : rows) {
    model->push_back(nn::Linear(torch, nn::LinearOptions(in, out).bias(false), kOnOnePe));
    in = out;
  }
  return model;
}

enum class Before { nothing, thrown_forward, validation };

struct Step {
  int ranks = 2;
  std::vector<std::size_t> inner = {1, 2, 3};  // layers with a group of their own
  int replicas = 1;
  FullyShardOptions options = {};
  bool sends_gradients = true;
  bool blocks = false;
  Before before = Before::nothing;  // the second step
};

// The collectives of a second step.
std::string schedule(const Step& step) {
  DataParallelWorld world(step.ranks, "ahbm",
                          {.data = false, .profile = true, .launch_blocking = step.blocks});
  std::size_t first = 0;
  world.spawn([&](int rank) {
    FullyShardOptions options = step.options;
    if (step.replicas > 1) {
      options.mesh = world.torch.distributed.init_device_mesh(
          "ahbm", {step.replicas, step.ranks / step.replicas}, {"replicate", "shard"});
    }
    const nn::Sequential model = layers(world.torch, {1, 2, 3, 5, 1});
    const auto children = model->children();
    for (const std::size_t i : step.inner) fully_shard(*children[i], options);
    options.reshard_after_forward = {};
    const FSDPModule fsdp = fully_shard(model, options);
    fsdp.set_requires_gradient_sync(step.sends_gradients);
    const Tensor x = world.torch.zeros({1, 1}, kOnOnePe);
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && step.before == Before::validation) model(x);
      if (i == 1 && step.before == Before::thrown_forward) {
        const unsigned hook = children[3]->register_forward_pre_hook(
            [](nn::Module&, const Tensor&) -> Tensor { throw std::runtime_error("no"); });
        CHECK_THROWS_WITH(model(x), "no");
        children[3]->remove_hook(hook);
      }
      world.torch.ahbm.synchronize();
      world.torch.distributed.barrier();
      if (rank == 0) first = simulation_of(world.torch).run_log()->spans().size();
      model(x).sum().backward();
    }
  });
  return to_text(calls_of(world.torch, step.ranks / step.replicas, first));
}

// Weights have 1, 2, 6, 15 and 5 elements.  On 2 ranks they have, padded, 2, 2, 8, 18 and 10; the
// root has the first and the last layer.
TEST_CASE("the collectives of a step, in order and with their bytes", "[fsdp][schedule]") {
  const bool blocks = GENERATE(true, false);
  CAPTURE(blocks);
  const std::string forward = "AG 48, AG 8, AG 32, AG 72, ";  // root, 1..L
  CHECK(schedule({.blocks = blocks}) ==
        forward + "AG 72, AG 32, RS 72, AG 8, RS 32, RS 8, RS 48, ");
  CHECK(schedule({.options = {.reshard_after_forward = false}, .blocks = blocks}) ==
        forward + "RS 72, RS 32, RS 8, RS 48, ");
  // Two groups of 2 ranks have 2 (2 + 2), 2 (4 + 4) and 2 (12 + 12) elements, of 4 bytes each.
  const std::string of_four = "AG 96, AG 16, AG 32, AG 96, ";
  CHECK(schedule({.ranks = 4, .options = {.reshard_after_forward = 2}, .blocks = blocks}) ==
        of_four + "AG 192, AG 64, RS 96, AG 32, RS 32, RS 16, RS 96, ");
  CHECK(schedule({.ranks = 4, .options = {.reshard_after_forward = 4}, .blocks = blocks}) ==
        of_four + "AG 96, AG 32, RS 96, AG 16, RS 32, RS 16, RS 96, ");
  CHECK(schedule({.ranks = 4, .options = {.reshard_after_forward = 1}, .blocks = blocks}) ==
        of_four + "RS 96, RS 32, RS 16, RS 96, ");
  CHECK(schedule({.sends_gradients = false, .blocks = blocks}) == forward + "AG 72, AG 32, AG 8, ");
  CHECK(
      schedule({.options = {.mp_policy = {.param_dtype = DType::bf16, .reduce_dtype = DType::f32}},
                .blocks = blocks}) ==
      "AG 24, AG 4, AG 16, AG 36, AG 36, AG 16, RS 72, AG 4, RS 32, RS 8, RS 48, ");
  // Each all_reduce is of the shard that the reduce_scatter before it leaves.
  CHECK(schedule({.ranks = 4, .replicas = 2, .blocks = true}) ==
        forward +
            "AG 72, AG 32, RS 72, AG 8, all_reduce 72, RS 32, all_reduce 32, RS 8, all_reduce 8, "
            "RS 48, all_reduce 48, ");
  CHECK(schedule({.ranks = 1, .blocks = blocks}).empty());
  // As in torch, a first layer whose input needs no gradient is told of the end after the root.
  CHECK(schedule({.inner = {0, 1, 2, 3}, .blocks = blocks}) ==
        "AG 40, AG 8, AG 8, AG 32, AG 72, AG 72, AG 32, RS 72, AG 8, RS 32, AG 8, RS 8, RS 40, "
        "RS 8, ");
}

TEST_CASE("forward passes without a backward pass have no part in the next step's schedule",
          "[fsdp][schedule]") {
  const bool blocks = GENERATE(true, false);
  CAPTURE(blocks);
  const std::string step = "AG 8, AG 32, AG 72, AG 72, AG 32, RS 72, AG 8, RS 32, RS 8, RS 48, ";
  CHECK(schedule({.blocks = blocks, .before = Before::thrown_forward}) == "AG 48, " + step);
  // The root has no group here, which would keep its parameters after a forward pass.
  const std::vector<std::size_t> all = {0, 1, 2, 3, 4};
  CHECK(schedule({.inner = all, .blocks = blocks, .before = Before::validation}) ==
        schedule({.inner = all, .blocks = blocks}));
}

constexpr std::int64_t kSide = 256;
constexpr int kInner = 5;  // groups beside the root's

struct Timed {
  std::vector<Call> calls;
  std::vector<Time> products;  // how long each took
  Time end{0};
};

Timed timed_step(std::int64_t samples, bool blocks, bool prefetches = false) {
  RuntimeContext torch(links_and_gemm(),
                       {.data = false, .profile = true, .launch_blocking = blocks});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 2, [&](int) {
    const nn::Sequential model(std::make_shared<nn::SequentialImpl>());
    std::vector<FSDPModule> inner;
    for (int i = 0; i <= kInner; ++i) {
      const nn::Linear linear(torch, nn::LinearOptions(kSide, kSide).bias(false), kOnOnePe);
      model->push_back(linear);
      if (i < kInner) inner.push_back(fully_shard(linear));
    }
    fully_shard(model);
    for (std::size_t i = 0; prefetches && i + 1 < inner.size(); ++i) {
      inner[i].set_modules_to_forward_prefetch({inner[i + 1]});
    }
    model(torch.zeros({samples, kSide}, kOnOnePe)).sum().backward();
  });
  Timed timed{calls_of(torch, 2), {}, torch.engine().now()};
  for (const RunSpan& span : simulation_of(torch).run_log()->spans()) {
    const bool is_product = span.kind == RunSpan::Kind::kernel && span.name == "matmul";
    if (is_product && span.device == 0) timed.products.push_back(span.end - span.start);
  }
  return timed;
}

// The times of a group's collectives alone and of its products; the first layer's backward pass
// computes its weight's gradient alone.
struct Durations {
  Time gather, scatter, forward, backward, first_backward;
};

Durations durations_of(const Timed& timed) {
  REQUIRE(timed.products.size() == 3 * kInner + 2);
  const Time of_input = timed.products[kInner + 1];
  const Time of_weight = timed.products.back();
  const auto length = [](const Call& call) { return call.end - call.start; };
  return {length(timed.calls.front()), length(timed.calls.back()), timed.products.front(),
          of_input + of_weight, of_weight};
}

// Launches that block: the forward pass does everything one after the other.  In the backward pass
// an all_gather is issued one group ahead, a reduce_scatter when its group is done, and they share
// one queue; a group that is done waits for the reduce_scatter before its own.
Time blocking_step(const Durations& of) {
  Time now = (kInner + 1) * (of.gather + of.forward);
  Time queue{0};
  Time scattered{0};
  Time gathered = queue = now + of.gather;
  now += of.backward;
  for (int i = kInner; i > 0; --i) {
    now = std::max(now, gathered);
    if (i > 1) gathered = queue = std::max(queue, now) + of.gather;
    now = std::max(now + (i > 1 ? of.backward : of.first_backward), scattered);
    scattered = queue = std::max(queue, now) + of.scatter;
  }
  return queue + of.scatter;  // the root's, and the first group's
}

TEST_CASE("a step with launches that block ends when its schedule says", "[fsdp][timing]") {
  const std::int64_t samples = GENERATE(1, 32, 64, 512);
  CAPTURE(samples);
  const Timed timed = timed_step(samples, true);
  CHECK(timed.end == blocking_step(durations_of(timed)));
}

// Launches that queue: all but the first two all_gathers are hidden, all but the last two
// reduce_scatters, and nothing else waits.
TEST_CASE("a step that computes for long exposes four collectives", "[fsdp][timing]") {
  const Timed timed = timed_step(64, false);
  const Durations of = durations_of(timed);
  REQUIRE(of.gather < of.forward);
  CHECK(timed.end == 2 * of.gather + (kInner + 1) * of.forward + kInner * of.backward +
                         of.first_backward + 2 * of.scatter);
}

TEST_CASE("all_gathers that are longer than products follow each other", "[fsdp][timing]") {
  const Timed timed = timed_step(1, false);
  const Durations of = durations_of(timed);
  REQUIRE(of.gather > of.forward);
  for (int i = 0; i <= kInner; ++i) {
    CHECK(timed.calls[static_cast<std::size_t>(i)].start == i * of.gather);
  }
}

TEST_CASE("explicit prefetch hides all_gathers where launches block", "[fsdp][timing]") {
  const Timed without = timed_step(64, true);
  const Timed with = timed_step(64, true, true);
  const Durations of = durations_of(with);
  CHECK(without.end - with.end == (kInner - 1) * of.gather);
}

}  // namespace
}  // namespace kernbench::test::fsdp_schedule_test
