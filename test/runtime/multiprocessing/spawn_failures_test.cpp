// Several ranks that fail, ranks that do not let themselves be unwound, and worlds that nobody
// joins.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/torch/run_ranks.h"
#include "test/runtime/distributed/local_world.h"
#include "test/runtime/fiber/run_in_child.h"

namespace kernbench::test::spawn_failures_test {
namespace {

std::string to_text(LocalWorld& world, const std::function<void(int)>& body) {
  return error_of<SpawnException>([&] { world.spawn(body); });
}

TEST_CASE("of ranks that fail at one instant the lowest is the cause, the others are suppressed",
          "[spawn][error]") {
  LocalWorld world(4);
  const std::string text = to_text(world, [&](int rank) {
    world.dist.barrier();  // the last to come goes on first: rank 3, then 0, 1 and 2
    if (rank == 2) world.dist.barrier();
    if (rank == 1) throw DeviceError("KB-T001", "first line\n  second line");
    throw std::runtime_error(fmt::format("boom {}", rank));
  });
  CHECK_THAT(text, Says("KB-R001", "-- Process 0 terminated with the following error:",
                        "rank 0: boom 0 (std::runtime_error)", "t=0 ns",
                        "rank 2 waited for barrier#1 at spawn_failures_test.cpp",
                        "2 more (rank 1: [KB-T001] first line, rank 3: boom 3"));
}

TEST_CASE("of many ranks the first ones are listed, and how many more there are",
          "[spawn][error]") {
  LocalWorld world(100);
  const std::string text = to_text(world, [&](int rank) {
    world.dist.barrier();
    throw std::runtime_error(fmt::format("boom {}", rank));
  });
  CHECK_THAT(text, Says("KB-R001", "Process 0", "rank 0: boom 0", "99 more (rank 1: boom 1",
                        "rank 2: boom 2", "rank 3: boom 3", "and 96 more"));
  const std::string waiting = to_text(world, [&](int rank) {
    if (rank == 50) throw std::runtime_error("boom");
    world.dist.barrier();
  });
  CHECK_THAT(waiting, Catch::Contains("\n  rank 23 waited for barrier#0 at ") &&
                          Catch::EndsWith("\n  and 75 ranks more") &&
                          !Catch::Contains("\n  rank 24 "));
}

TEST_CASE("ranks that no host can hold are refused before any begins", "[spawn][error]") {
  LocalWorld world(2);
  CHECK_THROWS_MATCHES(world.torch.multiprocessing.spawn([](int) {}, {}, 2'147'483'647), LimitError,
                       Says("KB-L001", "2147483647 ranks", "18874367 MiB"));
  int begun = 0;
  world.spawn([&](int) { ++begun; });
  CHECK(begun == 2);
}

TEST_CASE("a rank that fails later is not suppressed, it is unwound", "[spawn][error]") {
  LocalWorld world(2);
  const std::string text = to_text(world, [&](int rank) {
    if (rank == 0) world.tensor({1});
    throw std::runtime_error(fmt::format("boom {}", rank));
  });
  CHECK_THAT(text, Says("KB-R001", "Process 1", "rank 1: boom 1", "t=0 ns",
                        "rank 0 waited for copy_ into tensor 'tensor0'"));
}

TEST_CASE("a rank that returns at the instant of a failure is not its cause", "[spawn][error]") {
  LocalWorld world(3);
  const std::string text = to_text(world, [&](int rank) {
    if (rank == 0) world.dist.barrier();
    if (rank == 1) throw std::runtime_error("boom");
  });
  CHECK_THAT(text, Says("KB-R001", "Process 1", "rank 1: boom", "rank 2 had returned"));
}

// Stacks that are leaked on purpose: in a child, so that no sanitizer looks for them.
TEST_CASE("a rank that cannot be unwound is told of, and its stack is leaked", "[spawn][error]") {
  const runtime::Ended ended = runtime::run_in_child([] {
    struct Waits {
      distributed::DistributedContext& dist;
      ~Waits() { dist.barrier(); }
    };
    LocalWorld world(4);
    try {
      world.spawn([&](int rank) {
        if (rank == 3) throw std::runtime_error("boom");
        if (rank == 1) {
          const Waits last{world.dist};
          world.dist.barrier();
        }
        for (;;) {
          try {
            world.dist.barrier();
          } catch (...) {
            if (rank == 0) throw;
          }
        }
      });
    } catch (const SpawnException&) {
      _exit(7);
    }
  });
  CHECK(ended.exit_code == 7);
  CHECK_THAT(ended.standard_error,
             Says("KB-R009", "warning", "rank 2 ignored cancellation 3 times", "256 KiB",
                  "rank 1 waits in a destructor or a noexcept function"));
}

// Cancelled cannot leave either of them: the process ended by it, and nobody knew why.
TEST_CASE("a destructor and a noexcept function that wait do not hide the error of the run",
          "[spawn][error]") {
  const runtime::Ended ended = runtime::run_in_child([] {
    struct Waits {
      distributed::DistributedContext& dist;
      ~Waits() { dist.barrier(); }
    };
    LocalWorld world(3);
    const auto wait = [&]() noexcept { world.dist.barrier(); };
    try {
      world.spawn([&](int rank) {
        if (rank == 1) throw std::runtime_error("root cause");
        if (rank == 2) wait();
        const Waits last{world.dist};
      });
    } catch (const SpawnException& error) {
      _exit(std::string(error.what()).find("rank 1: root cause") != std::string::npos ? 7 : 8);
    }
  });
  CHECK(ended.exit_code == 7);
  CHECK_THAT(ended.standard_error,
             Says("KB-R009", "rank 0 waits in a destructor", "rank 2 waits in a destructor"));
}

TEST_CASE("a rank that never waits is ended, whatever it calls", "[spawn][error]") {
  const int kind = GENERATE(0, 1, 2);
  const runtime::Ended ended = runtime::run_in_child([kind] {
    RuntimeContext torch(round_topology(), {.rank_notice_time = std::chrono::milliseconds(40),
                                            .rank_time_limit = std::chrono::milliseconds(200)});
    run_ranks(torch, 1, [&](int) {
      const Tensor x = torch.ones({4});
      for (;;) {
        if (kind == 0) static_cast<void>(x.at({0}));
        if (kind == 1) static_cast<void>(torch.ahbm.current_device());
        if (kind == 2) static_cast<void>(torch.full({2}, 1));
      }
    });
  });
  CHECK(ended.exit_code == 20);
  CHECK_THAT(ended.standard_error,
             Says("KB-D004", "warning", "0.04 s", "error", "rank 0 ran 0.2 s"));
}

TEST_CASE("a context that ends before its ranks are joined says so, and unwinds them once",
          "[spawn][error]") {
  const runtime::Ended ended = runtime::run_in_child([] {
    int destroyed = 0;
    struct Counted {
      int& count;
      ~Counted() { ++count; }
    };
    {
      LocalWorld world(3);
      world.torch.multiprocessing.spawn(
          [&](int rank) {
            const Counted counted{destroyed};
            if (rank == 0) return;
            world.dist.barrier({.async_op = true}).wait();
          },
          std::tuple<>(), 2, {.join = false});
    }
    _exit(destroyed);
  });
  CHECK(ended.exit_code == 0);  // none had begun
  CHECK_THAT(ended.standard_error, Says("KB-R013", "2 unfinished workers", "rank 0 had not started",
                                        "rank 1 had not started", "join()"));
}

}  // namespace
}  // namespace kernbench::test::spawn_failures_test
