// kernbench/testing.h, as a user's own tests have it.

#include <kernbench/testing.h>

#include <catch2/catch.hpp>

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
  World world(kernbench::benches::load_topology("ring_1d_6"));
  world.run([&](int rank) {
    const Tensor x = world.torch.full({64}, rank);
    world.torch.distributed.all_reduce(x);
    CHECK(x.at({63}) == 15);
  });
  CHECK(world.torch.engine().now_ns() > 0);
}

}  // namespace
