// Ranks that ask again and again whether a Work is done.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::polling_test {
namespace {

using distributed::Work;
using distributed::WorkResult;

TEST_CASE("a loop that polls lets time go on until the work is done", "[distributed][work]") {
  LocalWorld world(2);
  const auto polls_until_done = [&](const auto& is_done) {
    Time done{0};
    int polls = 0;
    world.spawn([&](int rank) {
      const Tensor x = world.tensor({static_cast<float>(rank)});
      world.dist.barrier();
      const Time begin = world.torch.engine().now();
      if (rank == 1) {
        world.tensor({1, 2, 3});  // lets time pass
        world.dist.send(x, 0);
        done = world.torch.engine().now() - begin;
        return;
      }
      const Work work = world.dist.irecv(x, 1);
      CHECK_FALSE(work.is_completed());  // once costs nothing
      CHECK(world.torch.engine().now() == begin);
      while (!is_done(work)) ++polls;
      CHECK(world.torch.engine().now() > begin);
      CHECK(x.item() == 1);
    });
    CHECK(done > Time{0});
    return polls;
  };
  CHECK(polls_until_done([](const Work& work) { return work.is_completed(); }) < 100);
  CHECK(polls_until_done([](const Work& work) { return work.is_success(); }) < 100);
  CHECK(polls_until_done([](const Work& work) {
          return work.get_future_result() == WorkResult::success;
        }) < 100);
}

TEST_CASE("a rank that polls between what it does is not held up", "[distributed][work]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({1});
    world.dist.barrier();
    const Time begin = world.torch.engine().now();
    if (rank == 1) {
      world.tensor({1, 2, 3});
      for (const int tag : {0, 1}) world.dist.send(x, 0, {.tag = tag});
      return;
    }
    const Work work = world.dist.irecv(x, 1);
    const Work other = world.dist.irecv(world.zeros({1}), 1, {.tag = 1});
    CHECK_FALSE(work.is_completed());
    CHECK_FALSE(other.is_completed());
    CHECK(world.torch.engine().now() == begin);
    world.tensor({1});
    const Time later = world.torch.engine().now();
    CHECK(later > begin);
    CHECK_FALSE(work.is_completed());
    CHECK(world.torch.engine().now() == later);
    work.wait();
    other.wait();
  });
}

TEST_CASE("two ranks that poll for each other for ever are told", "[distributed][work]") {
  LocalWorld world(2);
  const std::string text = error_of<DeadlockError>([&] {
    world.spawn([&](int rank) {
      const Tensor x = world.tensor({1});
      const Work work = world.dist.irecv(x, 1 - rank);
      while (!work.is_completed()) {
      }
    });
  });
  CHECK(text.starts_with("[KB-D002] no progress: rank "));
  CHECK(text.find(" asked 20000 times at t=255.4 ns whether recv from rank ") != std::string::npos);
}

TEST_CASE("a rank that polls a work for ever is told", "[distributed][work]") {
  LocalWorld world(2);
  std::string text;
  const auto line = std::source_location::current().line() + 4;
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({1});
    if (rank == 1) return world.dist.recv(x, 0), world.dist.send(x, 0);
    const Work work = world.dist.irecv(world.zeros({1}), 1);
    text = error_of<DeadlockError>([&] {
      while (!work.is_completed()) {
      }
    });
    world.dist.send(x, 1);
    work.wait();
  });
  CHECK_THAT(text,
             Says("KB-D002", "rank 0 asked 20000 times", "t=255.4 ns",
                  fmt::format("recv from rank 1 (tag 0) at polling_test.cpp:{}", line), "wait()"));
}

TEST_CASE("any number of works that are completed may be polled at one instant",
          "[distributed][work]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({1});
    for (int i = 0; i < 30'000; ++i) {
      const Work work = rank == 0 ? world.dist.isend(x, 1) : world.dist.irecv(x, 0);
      while (!work.is_completed()) {
      }
    }
  });
  CHECK(world.torch.engine().now() < Time{1'000'000});
}

}  // namespace
}  // namespace kernbench::test::polling_test
