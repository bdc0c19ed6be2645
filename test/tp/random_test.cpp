// Named states of the random numbers.

#include "tp/random.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "test/runtime/distributed/local_world.h"
#include "tp/parallel_state.h"

namespace kernbench::test::random_test {
namespace {

using tp::Generator;
using tp::RNGStatesTracker;

TEST_CASE("a generator repeats itself, and another seed is another sequence", "[tp][random]") {
  Generator a(1);
  Generator b(1);
  Generator c(2);
  for (int i = 0; i < 10; ++i) {
    CHECK(a.bits() == b.bits());
    CHECK(a.bits() != c.bits());
    b.bits();
  }
}

TEST_CASE("uniform numbers lie from 0 to below 1 and normal ones have mean 0 and variance 1",
          "[tp][random]") {
  constexpr int kCount = 100'000;
  Generator generator(5);
  double sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const float uniform = generator.uniform();
    REQUIRE((uniform >= 0 && uniform < 1));
    sum += uniform;
    const double normal = generator.normal();
    normal_sum += normal;
    normal_squares += normal * normal;
  }
  // Five standard deviations of each mean.
  CHECK(std::abs(sum / kCount - 0.5) < 5 * std::sqrt(1.0 / 12 / kCount));
  CHECK(std::abs(normal_sum / kCount) < 5 / std::sqrt(1.0 * kCount));
  CHECK(std::abs(normal_squares / kCount - 1) < 5 * std::sqrt(2.0 / kCount));
}

TEST_CASE("a seed or a name comes once", "[tp][random]") {
  Generator generator(0);
  RNGStatesTracker tracker(generator);
  CHECK_FALSE(tracker.is_initialized());
  tracker.add("one", 1234);
  CHECK(tracker.is_initialized());
  CHECK_THROWS_MATCHES(tracker.add("two", 1234), CollectiveError,
                       Says("KB-T004", "seed 1234 already exists"));
  CHECK_THROWS_MATCHES(tracker.add("one", 5), CollectiveError,
                       Says("KB-T004", "cuda rng state one already exists"));
  CHECK_THAT(error_of<CollectiveError>([&] { const tp::RNGFork fork = tracker.fork("two"); }),
             Says("KB-T004", "cuda rng state two is not added"));
  tracker.reset();
  CHECK_FALSE(tracker.is_initialized());
  tracker.add("one", 1234);
}

TEST_CASE("a fork draws from its state, and leaves the default one where it was", "[tp][random]") {
  Generator generator(1);
  Generator alone(1);
  RNGStatesTracker tracker(generator);
  tracker.add("model", 2);
  Generator model(2);
  {
    const tp::RNGFork fork = tracker.fork("model");
    CHECK(generator.bits() == model.bits());
  }
  CHECK(generator.bits() == alone.bits());
  {
    const tp::RNGFork fork = tracker.fork("model");  // goes on
    CHECK(generator.bits() == model.bits());
  }
}

TEST_CASE("forks that nest draw as those that follow each other do", "[tp][random]") {
  Generator generator(1);
  RNGStatesTracker tracker(generator);
  tracker.add("a", 2);
  tracker.add("b", 3);
  const RNGStatesTracker::States start = tracker.get_states();
  std::vector<std::uint64_t> nested;
  {
    const tp::RNGFork a = tracker.fork("a");
    nested.push_back(generator.bits());
    {
      const tp::RNGFork b = tracker.fork("b");
      nested.push_back(generator.bits());
    }
    nested.push_back(generator.bits());
  }
  tracker.set_states(start);
  std::vector<std::uint64_t> single;
  for (const char* name : {"a", "b", "a"}) {
    const tp::RNGFork fork = tracker.fork(name);
    single.push_back(generator.bits());
  }
  CHECK(nested == single);
}

TEST_CASE("a seed gives each tensor parallel rank a state of its own, and all one default",
          "[tp][random]") {
  LocalWorld world(8);
  tp::initialize_model_parallel(world.torch,
                                {.tensor_model_parallel_size = 4, .expert_model_parallel_size = 2});
  world.spawn([&](int rank) {
    tp::model_parallel_manual_seed(world.torch, 100);
    const auto states = tp::get_rng_tracker(world.torch).get_states();
    const int tp_rank = rank % 4;
    const int ep_rank = rank / 4;
    CHECK(tp::default_generator(world.torch) == Generator(100));
    CHECK(states.at("data-parallel-rng") == Generator(100));
    CHECK(states.at("model-parallel-rng") ==
          Generator(static_cast<std::uint64_t>(100 + 2718 + tp_rank)));
    CHECK(states.at("expert-parallel-rng") ==
          Generator(static_cast<std::uint64_t>(100 + 1024 + 100 * ep_rank + tp_rank)));
    tp::model_parallel_manual_seed(world.torch, 0, {.tp_rank = 9});  // drops those of before
    CHECK(tp::get_rng_tracker(world.torch).get_states().at("model-parallel-rng") ==
          Generator(2727));
  });
}

TEST_CASE("a rank's random numbers do not depend on what others draw", "[tp][random]") {
  LocalWorld world(3);
  tp::initialize_model_parallel(world.torch);
  tp::default_generator(world.torch).bits();
  for (int run = 0; run < 2; ++run) {
    world.spawn([&](int rank) {
      Generator& generator = tp::default_generator(world.torch);
      Generator alone = generator;
      for (int i = 0; i <= rank; ++i) {
        CHECK(generator.bits() == alone.bits());
        world.dist.barrier({.group = tp::get_tensor_model_parallel_group(world.torch)});
      }
      CHECK(alone.bits() != Generator().bits());
    });
  }
}

TEST_CASE("a kernel draws no numbers of the host", "[tp][random][errors]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  const auto refused = [&](const std::function<void()>& use) {
    return error_of<CollectiveError>([&] {
      torch.launch(
          "draw", [&](tl::Context&, tl::Pointer) { use(); }, x);
    });
  };
  const Says expected("KB-R012", "random numbers", "'draw'", "arguments");
  CHECK_THAT(refused([&] { tp::default_generator(torch).uniform(); }), expected);
  CHECK_THAT(refused([&] { tp::get_rng_tracker(torch).reset(); }), expected);
}

}  // namespace
}  // namespace kernbench::test::random_test
