// torch.multiprocessing.spawn: arguments, order, and what becomes of a rank that fails.

#include "runtime/multiprocessing/spawn.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/tl/tl.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "test/runtime/distributed/meeting_backend.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::spawn_test {
namespace {

struct Custom {
  int value;
};

struct Counted {
  int& count;
  ~Counted() { ++count; }
};

struct SpawnUnderTest {
  RuntimeContext torch{round_topology(SipTopology::ring_1d, 4, 1)};

  SpawnUnderTest() {
    MeetingBackend::register_it();
    torch.distributed.init_process_group("meeting");
  }
  void spawn(const std::function<void(int)>& body, int nprocs = 4) {
    torch.multiprocessing.spawn(body, {}, nprocs);
  }
  void barrier() { torch.distributed.barrier(); }
  void pass_time() {  // 255.4 ns, and 0.4 ns for others who copy to the same device before
    torch.zeros({1}, {.dp = DPPolicy::on_one_pe()}).copy_(RuntimeContext::tensor({0}, {1}));
  }
  // The SpawnException of a run that must have one.
  SpawnException failure_of(const std::function<void(int)>& body) {
    try {
      spawn(body);
    } catch (const SpawnException& error) {
      return error;
    }
    throw std::logic_error("no SpawnException");
  }
};

void worker(int rank, const std::vector<int>& values, std::vector<int>& out, int factor) {
  out.push_back(values[static_cast<std::size_t>(rank)] * factor);
}

TEST_CASE("spawn calls fn(rank, args...) for each rank, in the order of ranks", "[spawn]") {
  SpawnUnderTest world;
  const std::vector<int> values{5, 6, 7};
  std::vector<int> out;
  world.torch.multiprocessing.spawn(worker, std::forward_as_tuple(values, out, 10), 3);
  CHECK(out == std::vector<int>{50, 60, 70});
}

TEST_CASE("args of std::tuple are copied once and shared by the ranks", "[spawn]") {
  SpawnUnderTest world;
  std::vector<int> seen;
  world.torch.multiprocessing.spawn([&](int, int& counter) { seen.push_back(++counter); },
                                    std::tuple{10}, 3);
  CHECK(seen == std::vector<int>{11, 12, 13});
}

TEST_CASE("one rank is the default, more than devices are allowed", "[spawn]") {
  SpawnUnderTest world;
  std::vector<int> ranks;
  world.torch.multiprocessing.spawn([&](int rank) { ranks.push_back(rank); });
  CHECK(ranks == std::vector<int>{0});
  world.spawn([&](int rank) { ranks.push_back(rank); }, 6);
  CHECK(ranks.size() == 7);
}

TEST_CASE("fewer than one rank is refused", "[spawn][error]") {
  SpawnUnderTest world;
  const auto text = [&](int nprocs) {
    return error_of<CollectiveError>([&] { world.spawn([](int) {}, nprocs); });
  };
  CHECK_THAT(text(0), Says("KB-R010", "nprocs is 0"));
  CHECK_THAT(text(-1), Says("KB-R010", "nprocs is -1"));
}

TEST_CASE("ranks interleave where they wait, in the same way each time", "[spawn]") {
  const auto run = [] {
    SpawnUnderTest world;
    std::string log;
    world.spawn([&](int rank) {
      for (int i = 0; i < 2; ++i) {
        log += fmt::format("{}{} ", static_cast<char>('a' + rank), i);
        world.barrier();
      }
    });
    return log;
  };
  CHECK(run() == "a0 b0 c0 d0 d1 a1 b1 c1 ");
  CHECK(run() == run());
}

TEST_CASE("a rank's exception leaves spawn with its number, its text and the others' state",
          "[spawn][error]") {
  const struct final : runtime::Activity {
    std::string describe() const override { return "a test"; }
    std::vector<int> missing_ranks() const override { return {}; }
  } activity;
  SpawnUnderTest world;
  const SpawnException error = world.failure_of([&](int rank) {
    if (rank == 0) return;
    if (rank == 2) {
      world.pass_time();
      throw std::runtime_error("boom");
    }
    if (rank == 3) world.pass_time();
    if (rank == 1) simulation_of(world.torch).local().collective = &activity;
    runtime::Completion never(simulation_of(world.torch));
    simulation_of(world.torch).wait(never, [] { return std::string("nothing"); });
  });
  CHECK(error.rank() == 2);
  CHECK(error.exit_code() == ExitCode::worker_failed);
  CHECK_THAT(error,
             Says("KB-R001", "-- Process 2 terminated with the following error:",
                  "rank 2: boom (std::runtime_error)", "t=255.4 ns", "rank 0 had returned",
                  "rank 1 waited for a test", "rank 3 waited for copy_ into tensor 'tensor1'"));
  CHECK_THROWS_AS(std::rethrow_exception(error.nested()), std::runtime_error);
}

TEST_CASE("exceptions of every kind are kept", "[spawn][error]") {
  SpawnUnderTest world;
  const auto fail_with = [&](auto exception) {
    return world.failure_of([=](int rank) {
      if (rank == 1) throw exception;
    });
  };
  {
    const SpawnException error = fail_with(42);
    CHECK_THAT(error, Says("KB-R001", "rank 1: an exception that is no std::exception (int)"));
    CHECK_THROWS_AS(std::rethrow_exception(error.nested()), int);
  }
  {
    const SpawnException error = fail_with(Custom{7});
    try {
      std::rethrow_exception(error.nested());
    } catch (const Custom& custom) {
      CHECK(custom.value == 7);
    }
  }
  CHECK_THAT(fail_with(std::invalid_argument("bad")),
             Says("KB-R001", "rank 1: bad (std::invalid_argument)"));
  const SpawnException of_error = fail_with(UsageError("KB-U001", "usage"));
  CHECK_THAT(of_error, Says("KB-R001", "rank 1: [KB-U001] usage"));
  CHECK(of_error.exit_code() == ExitCode::usage);
}

TEST_CASE("the first to fail in simulated time is the cause, then the lowest rank",
          "[spawn][error]") {
  SpawnUnderTest world;
  CHECK(world
            .failure_of([&](int rank) {
              world.torch.ahbm.set_device(rank);
              for (int i = rank; i < 4; ++i) world.pass_time();
              throw std::runtime_error(std::to_string(rank));
            })
            .rank() == 3);
  CHECK(world
            .failure_of([&](int rank) {
              world.torch.ahbm.set_device(rank);
              world.pass_time();
              throw std::runtime_error(std::to_string(rank));
            })
            .rank() == 0);
}

TEST_CASE("siblings are unwound, each destructor once, and what follows a wait does not run",
          "[spawn][error]") {
  SpawnUnderTest world;
  int destroyed = 0;
  int passed = 0;
  CHECK(world
            .failure_of([&](int rank) {
              const Counted counted{destroyed};
              if (rank == 1) {
                world.pass_time();
                throw std::runtime_error("boom");
              }
              world.barrier();
              ++passed;
            })
            .rank() == 1);
  CHECK(destroyed == 4);
  CHECK(passed == 0);
}

TEST_CASE("a rank that catches everything and waits again is given up", "[spawn][error]") {
  SpawnUnderTest world;
  int caught = 0;
  CHECK(world
            .failure_of([&](int rank) {
              if (rank == 1) {
                world.pass_time();
                throw std::runtime_error("boom");
              }
              for (;;) {
                try {
                  world.barrier();
                } catch (...) {
                  if (rank == 2) ++caught;
                  if (rank != 2) throw;
                }
              }
            })
            .rank() == 1);
  CHECK(caught == 3);
  CHECK(simulation_of(world.torch).fibers().abandoned().size() == 1);
  world.spawn([&](int) { world.barrier(); });  // the context works on
}

TEST_CASE("a rank that catches std::exception is unwound all the same", "[spawn][error]") {
  SpawnUnderTest world;
  int destroyed = 0;
  CHECK(world
            .failure_of([&](int rank) {
              const Counted counted{destroyed};
              if (rank == 1) {
                world.pass_time();
                throw std::runtime_error("boom");
              }
              try {
                world.barrier();
              } catch (const std::exception&) {
                FAIL("Cancelled is no std::exception");
              }
            })
            .rank() == 1);
  CHECK(destroyed == 4);
}

TEST_CASE("after a failure the context can be used again, also with tensors of before",
          "[spawn][error]") {
  SpawnUnderTest world;
  Tensor x = world.torch.zeros({2}, {.dp = DPPolicy::on_one_pe()});
  for (int i = 0; i < 3; ++i) {
    CHECK(world
              .failure_of([&](int rank) {
                if (rank == 0) x.copy_(RuntimeContext::tensor({9, 9}, {2}));
                throw std::runtime_error("boom");
              })
              .rank() == 1);
    int passed = 0;
    world.spawn([&](int rank) {
      if (rank == 0) x.copy_(RuntimeContext::tensor({1, static_cast<float>(i)}, {2}));
      world.barrier();
      ++passed;
    });
    CHECK(passed == 4);
    CHECK(x.to_vector() == std::vector<float>{1, static_cast<float>(i)});
  }
}

TEST_CASE("what a kernel of a rank throws is that rank's exception", "[spawn][error]") {
  SpawnUnderTest world;
  const SpawnException error = world.failure_of([&](int rank) {
    world.torch.ahbm.set_device(rank);
    const Tensor x = world.torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
    world.torch.launch(
        "k",
        [&](tl::Context&, tl::Pointer) {
          if (rank == 3) throw std::runtime_error("boom");
        },
        x);
    world.barrier();
  });
  CHECK(error.rank() == 3);
  CHECK(error.exit_code() == ExitCode::device_fault);
  CHECK_THAT(error, Says("KB-R001", "rank 3: [KB-K001] kernel 'k' on sip3.cube0.pe0 raised: boom"));
}

TEST_CASE("worlds do not nest", "[spawn][error]") {
  SpawnUnderTest world;
  std::string in_worker;
  world.spawn([&](int rank) {
    if (rank == 2) {
      in_worker = error_of<CollectiveError>([&] { world.spawn([](int) {}); });
    }
  });
  CHECK_THAT(in_worker, Says("KB-R004", "spawn() inside a worker", "rank 2", "nested worlds"));
  const Tensor x = world.torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  CHECK_THROWS_MATCHES(world.torch.launch(
                           "k", [&](tl::Context&, tl::Pointer) { world.spawn([](int) {}); }, x),
                       CollectiveError, Says("KB-R004", "spawn() inside a kernel", "rank 0"));
}

TEST_CASE("a deadlock of ranks names them all, with what they wait for", "[spawn][deadlock]") {
  SpawnUnderTest world;
  const std::string text = error_of<DeadlockError>([&] {
    world.spawn(
        [&](int rank) {
          if (rank == 1) world.pass_time();
          runtime::Completion never(simulation_of(world.torch));
          simulation_of(world.torch).wait(never, [=] { return fmt::format("thing {}", rank); });
        },
        3);
  });
  CHECK_THAT(text, Says("KB-D001", "3 ranks", "t=255.4 ns", "rank 0 waits for thing 0 since t=0 ns",
                        "rank 1 waits for thing 1 since t=255.4 ns", "rank 2 waits for thing 2"));
}

TEST_CASE("a rank that computes longer delays only those that need it", "[spawn][timing]") {
  SpawnUnderTest world;
  std::vector<Time> ended(4);
  world.spawn([&](int rank) {
    world.torch.ahbm.set_device(rank);
    for (int i = 0; i <= rank; ++i) world.pass_time();
    ended[static_cast<std::size_t>(rank)] = world.torch.engine().now();
  });
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(ended[static_cast<std::size_t>(rank)] == (rank + 1) * Time{255'400});
  }
}

TEST_CASE("what ranks return is there by rank", "[spawn]") {
  SpawnUnderTest world;
  const std::vector<int> squares =
      world.torch.multiprocessing.spawn([](int rank) { return rank * rank; }, {}, 4);
  CHECK(squares == std::vector<int>{0, 1, 4, 9});
}

TEST_CASE("ranks that are not joined run whenever the caller waits", "[spawn]") {
  SpawnUnderTest world;
  int ended = 0;
  auto context = world.torch.multiprocessing.spawn(
      [&](int, int weight) {
        world.pass_time();
        ended += weight;
      },
      std::tuple(10), 3, {.join = false});
  CHECK(ended == 0);
  CHECK_THROWS_MATCHES(world.torch.multiprocessing.spawn([](int) {}, {}, 1), CollectiveError,
                       Says("KB-R004", "spawn()", "join() it first"));
  CHECK(context.join());
  CHECK(ended == 30);
  CHECK(context.join());
  world.torch.multiprocessing.spawn([](int) {}, {}, 1);
}

TEST_CASE("join throws what a rank threw, as often as it is called", "[spawn][error]") {
  SpawnUnderTest world;
  auto context = world.torch.multiprocessing.spawn(
      [](int rank) {
        if (rank == 1) throw std::runtime_error("boom");
      },
      std::tuple<>(), 2, {.join = false});
  CHECK_THROWS_AS(context.join(), SpawnException);
  CHECK_THROWS_AS(context.join(), SpawnException);
}

TEST_CASE("a rank that fails while the caller waits for something else fails join() too",
          "[spawn][error]") {
  SpawnUnderTest world;
  auto context = world.torch.multiprocessing.spawn(
      [](int rank) {
        if (rank == 1) throw std::runtime_error("boom");
      },
      std::tuple<>(), 2, {.join = false});
  CHECK_THROWS_AS(world.pass_time(), SpawnException);
  CHECK_THROWS_AS(context.join(), SpawnException);
}

}  // namespace
}  // namespace kernbench::test::spawn_test
