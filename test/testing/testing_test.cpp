// kernbench/testing.h, as a user's own tests have it.

#include <kernbench/testing.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

namespace {

using kernbench::Tensor;
using kernbench::testing::World;

TEST_CASE("every rank ends with the sum") {
  World world(4);
  CHECK(world.size() == 4);
  world.run([&](int rank) {
    const Tensor x = world.torch.full({1024}, rank);
    world.torch.distributed.all_reduce(x);
    kernbench::testing::assert_close(x, std::vector<float>(1024, 0 + 1 + 2 + 3));
    kernbench::testing::assert_equal_on_ranks(world.torch, x);
  });
}

TEST_CASE("a world may have a device, and then collectives take their time") {
  World world(kernbench::Topology::load("ring_1d_6"));
  world.run([&](int rank) {
    const Tensor x = world.torch.full({64}, rank);
    world.torch.distributed.all_reduce(x);
    CHECK(x.at({63}) == 15);
  });
  CHECK(world.torch.engine().now_ns() > 0);
  World small(3, "ahbm");
  small.run([&](int) { small.torch.distributed.barrier(); });
  CHECK(small.torch.engine().now_ns() > 0);
}

TEST_CASE("what goes wrong in a world keeps its type") {
  World world(2);
  CHECK_THROWS_AS(
      world.run([&](int rank) { world.torch.distributed.recv(world.torch.zeros({1}), 1 - rank); }),
      kernbench::DeadlockError);
  CHECK_THROWS_AS(world.run([&](int rank) {
    rank == 0 ? world.torch.distributed.barrier()
              : world.torch.distributed.broadcast(world.torch.zeros({1}), 0);
  }),
                  kernbench::CollectiveMismatchError);
  try {
    world.run([](int rank) {
      if (rank == 1) throw std::out_of_range("boom");
    });
    FAIL("nothing was thrown");
  } catch (const kernbench::SpawnException& error) {
    CHECK(error.rank() == 1);
    CHECK_THROWS_AS(std::rethrow_exception(error.nested()), std::out_of_range);
  }
}

TEST_CASE("an assertion that failed in a rank is not reported a second time") {
  World world(2);
  // REQUIRE throws this when it has reported.
  CHECK_THROWS_AS(world.run([](int rank) {
    if (rank == 1) throw Catch::TestFailureException();
  }),
                  Catch::TestFailureException);
}

TEST_CASE("a world has a rank at least") {
  for (const int ranks : {0, -1}) {
    try {
      const World world(ranks);
      FAIL("nothing was thrown");
    } catch (const kernbench::CollectiveError& error) {
      CHECK(error.code() == "KB-R010");
      CHECK_THAT(error.what(), Catch::Contains(std::to_string(ranks) + " ranks"));
    }
  }
}

}  // namespace
