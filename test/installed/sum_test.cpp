#include <catch2/catch.hpp>
#include <kernbench/testing.h>

TEST_CASE("every rank ends with the sum") {
  kernbench::testing::World world(4);
  world.run([&](int rank) {
    const kernbench::Tensor x = world.torch.full({1024}, rank);
    world.torch.distributed.all_reduce(x);
    kernbench::testing::assert_close(x, std::vector<float>(1024, 0 + 1 + 2 + 3));
  });
}
