// Tests what each scheme sends in a step, and when: collectives and their bytes, between the
// forward passes of modules and the gradients that arrive, as rank 0 issues them.

#include <fmt/ranges.h>

#include "runtime/optim/optimizer.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/parallel/data_parallel_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parallel_state.h"

namespace kernbench::test::schedules_test {
namespace {

constexpr std::int64_t kSide = 512;  // so that a weight has 1 MiB
const TensorOptions kF32{.dtype = DType::f32, .dp = DPPolicy::on_one_pe()};

// The actions of rank 0, in their order.
class Journal {
 public:
  Journal(RuntimeContext& torch, int rank) : torch_(torch), rank_(rank) {}

  void note(const std::string& what) {
    note_collectives();
    lines_.push_back(what);
  }
  // Returns what was noted since the last call.
  std::string take() {
    note_collectives();
    return fmt::format("{}", fmt::join(std::exchange(lines_, {}), ", "));
  }

 private:
  void note_collectives() {
    const auto events = simulation_of(torch_).flight_recorder().events(rank_);
    for (; seen_ < events.size(); ++seen_) lines_.push_back(to_text(events[seen_]));
  }
  // A reduce_scatter is recorded with its output, an all_gather with its input: a rank's part.
  std::string to_text(const runtime::FlightEvent& event) const {
    const std::string name(event.function);
    if (!event.has_tensor) return name;
    const bool is_part = name.ends_with("scatter_tensor") || name.ends_with("into_tensor");
    const int parts = is_part ? torch_.distributed.get_world_size() : 1;
    return fmt::format("{} {}", name, event.shape.numel() * size_of(event.dtype) * parts);
  }

  RuntimeContext& torch_;
  const int rank_;
  std::size_t seen_ = 0;
  std::vector<std::string> lines_;
};

// Three layers "0", "1", "2", each with a weight of 1 MiB and a bias of 2 KiB.
nn::Sequential make_model(const RuntimeContext& torch, Journal& journal, bool has_buffer) {
  const auto layer = [&](int number) {
    nn::Linear linear(torch, kSide, kSide, kF32);
    linear->register_forward_pre_hook([&journal, number](nn::Module&, const Tensor&) {
      journal.note(fmt::format("forward {}", number));
      return Tensor();
    });
    for (const auto& item : linear->named_parameters()) {
      item.value().register_post_accumulate_grad_hook(
          [&journal, name = fmt::format("{}.{}", number, item.key())](const Tensor&) {
            journal.note(name);
          });
    }
    return linear;
  };
  nn::Sequential model(layer(0), layer(1), layer(2));
  if (has_buffer) model->register_buffer("seen", torch.zeros({16}, kF32));
  return model;
}

// The actions of rank 0 while it makes its model, and in each of three steps.
using Schedule = std::vector<std::string>;

template <class Model, class Finish>
Schedule steps(RuntimeContext& torch, Journal& journal, Model& model, const Finish& finish) {
  Schedule schedule{journal.take()};
  for (int i = 0; i < 3; ++i) {
    model(torch.zeros({1, kSide}, kF32)).sum().backward();
    finish();
    schedule.push_back(journal.take());
  }
  return schedule;
}

template <class Train>
Schedule schedule_of(const Train& train) {
  DataParallelWorld world(2, "ahbm", {.data = false});
  Schedule schedule;
  world.spawn([&](int rank) {
    Journal journal(world.torch, rank);
    const Schedule own = train(world.torch, journal);
    if (rank == 0) schedule = own;
  });
  return schedule;
}

Schedule ddp_schedule(const nn::parallel::DistributedDataParallelOptions& options,
                      bool has_buffer = false, bool syncs = true) {
  return schedule_of([&](RuntimeContext& torch, Journal& journal) {
    nn::parallel::DistributedDataParallel ddp(make_model(torch, journal, has_buffer), options);
    const auto run = [&] { return steps(torch, journal, ddp, [] {}); };
    if (syncs) return run();
    const auto no_sync = ddp->no_sync();
    return run();
  });
}

Schedule megatron_schedule(tp::DistributedDataParallelConfig config) {
  config.bucket_size = kSide * kSide;
  return schedule_of([&](RuntimeContext& torch, Journal& journal) {
    tp::initialize_model_parallel(torch);
    tp::DistributedDataParallel model(torch, config, make_model(torch, journal, false));
    tp::MegatronOptimizer optimizer(torch, model->buckets(), [](std::vector<Tensor> shards) {
      return std::make_unique<optim::SGD>(std::move(shards), 0.1);
    });
    journal.take();  // the groups
    return steps(torch, journal, model, [&] {
      journal.note("finalize");
      tp::finalize_model_grads(model);
      journal.note("step");
      optimizer.step();
    });
  });
}

// A Linear's bias arrives before its weight.  A weight and a bias of f32:
constexpr int kLayer = 4 * (kSide * kSide + kSide);

const std::string kForward = "forward 0, forward 1, forward 2";
const std::string kBackward = "2.bias, 2.weight, 1.bias, 1.weight, 0.bias, 0.weight";

// `collective`, of a layer's gradients, after each layer's weight.
std::string backward_with(std::string_view collective) {
  return fmt::format("2.bias, 2.weight, {0}, 1.bias, 1.weight, {0}, 0.bias, 0.weight, {0}",
                     fmt::format("{} {}", collective, kLayer));
}

TEST_CASE("torch's DistributedDataParallel sends what the table says, when it says", "[ddp]") {
  const std::string made = fmt::format("all_gather_object, broadcast {}", 3 * kLayer);
  const std::string first = fmt::format("{}, {}, all_reduce {}", kForward, kBackward, 3 * kLayer);
  const std::string later = kForward + ", " + backward_with("all_reduce");
  // Once: the 6 parameters' order with the number of buckets, and 3 buckets' sizes.
  const std::string rebuilding = "broadcast 28, broadcast 12, ";
  CHECK(ddp_schedule({.bucket_cap_mb = 1}) == Schedule{made, first, rebuilding + later, later});
  CHECK(ddp_schedule({.bucket_cap_mb = 1, .gradient_as_bucket_view = true}) ==
        Schedule{made, first, rebuilding + later, later});
  // With unused parameters to find, there are buckets from the start, in the order of definition,
  // reversed, and each weight closes one.  Beside them, a map of what was used.
  const std::string searching = fmt::format(
      "{0}, 2.bias, all_reduce {1}, 2.weight, 1.bias, all_reduce {2}, 1.weight, 0.bias, "
      "all_reduce {2}, 0.weight, all_reduce {3}, all_reduce 24",
      kForward, 4 * kSide, kLayer, 4 * kSide * kSide);
  CHECK(ddp_schedule({.bucket_cap_mb = 1, .find_unused_parameters = true}) ==
        Schedule{made, searching, searching, searching});
  const std::string learning =
      fmt::format("{}, {}, all_reduce 24, all_reduce {}", kForward, kBackward, 3 * kLayer);
  CHECK(ddp_schedule({.bucket_cap_mb = 1, .static_graph = true})[1] == learning);
}

TEST_CASE("buffers are broadcast when a forward pass begins", "[ddp]") {
  const Schedule schedule = ddp_schedule({.bucket_cap_mb = 1}, true);
  CHECK(schedule[0] == fmt::format("all_gather_object, broadcast {}", 3 * kLayer + 64));
  CHECK(schedule[1].starts_with("broadcast 64, forward 0"));
  CHECK(schedule[2].starts_with("broadcast 28, broadcast 12, broadcast 64, forward 0"));
  CHECK(schedule[3].starts_with("broadcast 64, forward 0"));
  CHECK(ddp_schedule({.bucket_cap_mb = 1, .broadcast_buffers = false}, true)[3] ==
        kForward + ", " + backward_with("all_reduce"));
}

TEST_CASE("a step without synchronization sends nothing", "[ddp]") {
  const std::string alone = kForward + ", " + kBackward;
  const Schedule schedule = ddp_schedule({.bucket_cap_mb = 1}, false, false);
  CHECK(schedule[1] == alone);
  CHECK(schedule[3] == alone);
}

TEST_CASE("Megatron's wrapper sends what the table says, when it says", "[ddp]") {
  const std::string passes = kForward + ", " + kBackward;
  const auto after = [](std::string_view collective, int bytes, int times = 1) {
    return fmt::format(", {}", fmt::join(std::vector(static_cast<std::size_t>(times),
                                                     fmt::format("{} {}", collective, bytes)),
                                         ", "));
  };
  // Without overlap there is one bucket.
  const std::string whole =
      passes + ", finalize" + after("all_reduce", 3 * kLayer) + ", step, all_reduce 4";
  CHECK(megatron_schedule({}) == Schedule{"", whole, whole, whole});

  // In the first batch gradients are counted, and nothing overlaps.
  const std::string counting =
      passes + ", finalize" + after("all_reduce", kLayer, 3) + ", step, all_reduce 4";
  const std::string overlapping =
      kForward + ", " + backward_with("all_reduce") + ", finalize, step, all_reduce 4";
  CHECK(megatron_schedule({.overlap_grad_reduce = true}) ==
        Schedule{"", counting, overlapping, overlapping});
}

TEST_CASE("ZeRO-1 sends what the table says, when it says", "[ddp]") {
  const std::string scatter = fmt::format("reduce_scatter_tensor {}", kLayer);
  const std::string gather = fmt::format("all_gather_into_tensor {}", kLayer);
  const std::string passes = kForward + ", " + kBackward;
  const std::string gathers = fmt::format(", {0}, {0}, {0}", gather);
  const std::string counting = fmt::format("{}, finalize, {}, {}, {}, step, all_reduce 4", passes,
                                           scatter, scatter, scatter);
  const std::string overlapping =
      kForward + ", " + backward_with("reduce_scatter_tensor") + ", finalize, step, all_reduce 4";

  const std::string whole = fmt::format(
      "{}, finalize, reduce_scatter_tensor {}, step, all_reduce 4, all_gather_into_tensor {}",
      passes, 3 * kLayer, 3 * kLayer);
  CHECK(megatron_schedule({.use_distributed_optimizer = true}) ==
        Schedule{"", whole, whole, whole});
  CHECK(megatron_schedule({.overlap_grad_reduce = true, .use_distributed_optimizer = true}) ==
        Schedule{"", counting + gathers, overlapping + gathers, overlapping + gathers});

  // The first module gathers its bucket, and each begins the next one's.
  const std::string ahead = fmt::format(
      "forward 0, {0}, {0}, forward 1, {0}, forward 2, {1}, finalize, step, "
      "all_reduce 4",
      gather, backward_with("reduce_scatter_tensor"));
  CHECK(megatron_schedule({.overlap_grad_reduce = true,
                           .use_distributed_optimizer = true,
                           .overlap_param_gather = true}) == Schedule{"", counting, ahead, ahead});
}

// A gathered bucket is waited for where it is used, beside what computes before.
TEST_CASE("parameters that are gathered ahead make a step shorter", "[ddp][timing]") {
  const auto time_of = [](bool is_ahead) {
    DataParallelWorld world(2, "ahbm", {.data = false});
    Time second{0};
    world.spawn([&](int rank) {
      tp::initialize_model_parallel(world.torch);
      const nn::Sequential net(nn::Linear(world.torch, kSide, kSide, kF32),
                               nn::Linear(world.torch, kSide, kSide, kF32),
                               nn::Linear(world.torch, kSide, kSide, kF32));
      tp::DistributedDataParallel model(world.torch,
                                        {.overlap_grad_reduce = true,
                                         .use_distributed_optimizer = true,
                                         .overlap_param_gather = is_ahead,
                                         .bucket_size = kSide * kSide},
                                        net);
      tp::MegatronOptimizer optimizer(world.torch, model->buckets(),
                                      [](std::vector<Tensor> shards) {
                                        return std::make_unique<optim::SGD>(std::move(shards), 0.1);
                                      });
      Time before{0};
      for (int i = 0; i < 3; ++i) {
        before = world.torch.engine().now();
        model(world.torch.zeros({256, kSide}, kF32)).sum().backward();
        tp::finalize_model_grads(model);
        optimizer.step();
        world.torch.ahbm.synchronize();
      }
      if (rank == 0) second = world.torch.engine().now() - before;
    });
    return second;
  };
  CHECK(time_of(true) < time_of(false));
}

}  // namespace
}  // namespace kernbench::test::schedules_test
