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

// Rank 0 adds what the others send, in whatever order it comes.
void add_messages(kernbench::testing::World& world) {
  world.run([&](int rank) {
    const kernbench::Tensor x = world.torch.full({16}, rank);
    if (rank != 0) return world.torch.distributed.send(x, 0);
    std::vector<float> sum(16, 0);
    for (int i = 1; i < world.size(); ++i) {
      world.torch.distributed.recv(x);  // from any rank
      const std::vector<float> part = x.to_vector();
      for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += part[n];
    }
    world.observe("sum", world.torch.tensor(sum, {16}, {}));
  });
}

TEST_CASE("the sum of messages is the same in every schedule") {
  kernbench::testing::explore({.ranks = 4, .runs = 2000}, add_messages);
  CHECK(kernbench::testing::exhaustive({.ranks = 4}, add_messages).text() == "all 6 schedules");
}
