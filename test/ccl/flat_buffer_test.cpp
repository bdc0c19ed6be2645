// Collectives on a flat buffer and on its views, as data parallel training issues them.

#include <catch2/catch.hpp>

#include "test/ccl/everywhere.h"

namespace kernbench::test::flat_buffer_test {
namespace {

using namespace under_way;
using distributed::Work;

std::vector<float> numbers(std::int64_t first, std::int64_t count, int factor) {
  std::vector<float> made;
  for (std::int64_t i = first; i < first + count; ++i) {
    made.push_back(static_cast<float>(factor * (static_cast<int>(i) % 50 + 1)));
  }
  return made;
}

TEST_CASE("one all_reduce of a flat buffer reduces all gradients in it", "[ccl][flat]") {
  const Shard cube = GENERATE(Shard::replicate, Shard::partial);
  CAPTURE(name_of(cube));
  everywhere(2, [&](Ranks& world, int rank) {
    const std::int64_t n = world.n;
    Tensor flat = world.torch.zeros({3 * n}, {.dp = {.cube = cube, .num_pes = 1}});
    flat.copy_(RuntimeContext::tensor(numbers(0, 3 * n, rank + 1), {3 * n}));
    const Tensor a = flat.narrow(0, 0, 2 * n).view({2, n});
    const Tensor b = flat.narrow(0, 2 * n, n);
    world.dist.all_reduce(flat);
    CHECK(a.to_vector() == numbers(0, 2 * n, 3));
    CHECK(b.to_vector() == numbers(2 * n, n, 3));
    CHECK(a[1].to_vector() == numbers(n, n, 3));
  });
}

TEST_CASE("buckets of a flat buffer are reduced while others are written", "[ccl][flat]") {
  everywhere(2, [](Ranks& world, int rank) {
    const std::int64_t n = world.n;
    const Tensor flat = world.torch.full({2 * n}, rank + 1, {.dp = DPPolicy::on_one_pe()});
    const Tensor first = flat.narrow(0, 0, n);
    const Tensor second = flat.narrow(0, n, n);
    const Work work = world.dist.all_reduce(first, {.async_op = true});
    second.view({1, n}).mul_(10);
    CHECK(refusal([&] { first.mul_(10); }).starts_with("[KB-G003] "));
    CHECK(refusal([&] { flat.zero_(); }).starts_with("[KB-G003] "));
    work.wait();
    CHECK(first_of(flat) == 3);
    CHECK(last_of(flat) == 10 * (rank + 1));
    world.dist.all_reduce(second);
    CHECK(flat.to_vector() == [&] {
      std::vector<float> expected(static_cast<std::size_t>(n), 3);
      expected.resize(static_cast<std::size_t>(2 * n), 30);
      return expected;
    }());
  });
}

TEST_CASE("shards of a flat buffer are scattered and gathered, as ZeRO does", "[ccl][flat]") {
  everywhere(2, [](Ranks& world, int rank) {
    const std::int64_t n = world.n;
    const Tensor flat = world.torch.zeros({2 * n}, {.dp = DPPolicy::on_one_pe()});
    Tensor(flat).copy_(RuntimeContext::tensor(numbers(0, 2 * n, rank + 1), {2 * n}));
    const Tensor own = world.torch.zeros({n}, {.dp = DPPolicy::on_one_pe()});
    world.dist.reduce_scatter_tensor(own, flat);
    CHECK(own.to_vector() == numbers(rank * n, n, 3));
    const Tensor part = flat.narrow(0, rank * n, n);
    part.zero_().add_(own, 2);
    world.dist.all_gather_into_tensor(flat, own);
    CHECK(flat.to_vector() == numbers(0, 2 * n, 3));
    CHECK(part.to_vector() == numbers(rank * n, n, 3));
  });
}

TEST_CASE("a collective on a part of a sum of holders is refused", "[ccl][flat]") {
  everywhere(2, [](Ranks& world, int) {
    const Tensor flat =
        world.torch.zeros({2 * world.n}, {.dp = {.cube = Shard::partial, .num_pes = 1}});
    const Tensor part = flat.narrow(0, 0, world.n);
    if (flat.shards().size() == 1) return;
    CHECK(refusal([&] { world.dist.all_reduce(part); }).starts_with("[KB-C013] all_reduce: "));
  });
}

}  // namespace
}  // namespace kernbench::test::flat_buffer_test
