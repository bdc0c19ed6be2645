// Names of torch.distributed beside its collectives: several tensors in one call, handles to
// groups, futures, and what it says of the host.

#include <catch2/catch.hpp>

#include "runtime/functional/operators.h"
#include "test/runtime/distributed/local_world.h"

namespace kernbench::test::names_test {
namespace {

using distributed::ProcessGroup;
using Floats = std::vector<float>;

TEST_CASE("several tensors are reduced, or gathered, in one call", "[distributed][names]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const auto own = static_cast<float>(rank);
    const Tensor a = world.tensor({own, 1});
    const Tensor b = world.tensor({own + 1, 2, 3});
    CHECK_FALSE(world.dist.all_reduce_coalesced({a, b}).defined());
    CHECK(a.to_vector() == Floats{3, 3});
    CHECK(b.to_vector() == Floats{6, 6, 9});
    const Tensor c = world.tensor({own});
    const auto work =
        world.dist.all_reduce_coalesced({a, c}, {.op = ReduceOp::max, .async_op = true});
    CHECK(work.wait());
    CHECK(work.result().size() == 2);
    CHECK(c.to_vector() == Floats{2});

    std::vector<std::vector<Tensor>> lists;
    for (int from = 0; from < 3; ++from) lists.push_back({world.zeros({1}), world.zeros({2})});
    world.dist.all_gather_coalesced(lists, {world.tensor({own}), world.tensor({own, -own})});
    for (std::size_t from = 0; from < 3; ++from) {
      const auto sent = static_cast<float>(from);
      CHECK(lists[from][0].to_vector() == Floats{sent});
      CHECK(lists[from][1].to_vector() == Floats{sent, -sent});
    }
    const Tensor all = world.zeros({3});
    world.dist._all_gather_base(all, world.tensor({own}));
    CHECK(all.to_vector() == Floats{0, 1, 2});
    const Tensor part = world.zeros({1});
    world.dist._reduce_scatter_base(part, all);
    CHECK(part.to_vector() == Floats{3 * own});
  });
}

TEST_CASE("lists of tensors that do not fit are refused before anything is sent",
          "[distributed][names]") {
  LocalWorld world(2);
  world.spawn([&](int) {
    auto& dist = world.dist;
    const Tensor x = world.tensor({1});
    CHECK_THAT(LocalWorld::refusal([&] { dist.all_reduce_coalesced({}); }),
               Catch::Contains("::allreduce_coalesced: requires non-empty tensor list"));
    CHECK_THAT(LocalWorld::refusal([&] {
                 dist.all_reduce_coalesced({x, world.tensor({1}, DType::bf16)});
               }),
               Catch::Contains("Invalid usage of tensors with different dtypes"));
    CHECK_THAT(LocalWorld::refusal([&] { dist.all_gather_coalesced({{x}}, {x}); }),
               Catch::Contains("output lists should be equal to world size"));
    CHECK_THAT(LocalWorld::refusal([&] {
                 dist.all_gather_coalesced({{x}, {}}, {x});
               }),
               Catch::Contains("(expected length 1, got 0)"));
    CHECK_THAT(LocalWorld::refusal([&] {
                 dist.all_gather_coalesced({{x}, {world.tensor({1, 2})}}, {x});
               }),
               Catch::Contains("invalid size of output tensor at index 0"));
    dist.all_reduce(x);
    CHECK(x.to_vector() == Floats{2});
  });
}

TEST_CASE("a group knows its rank, size and backend, and reduces", "[distributed][names]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const ProcessGroup all = world.dist._get_default_group();
    CHECK(all.rank() == rank);
    CHECK(all.size() == 3);
    CHECK(all.name() == "local");
    const Tensor x = world.tensor({static_cast<float>(rank)});
    all.allreduce(x).wait();
    CHECK(x.to_vector() == Floats{3});
    all.allreduce(x, ReduceOp::avg).wait();
    CHECK(x.to_vector() == Floats{3});
    CHECK(all.barrier().wait());
    const ProcessGroup pair = world.dist.new_group({0, 2});
    if (rank != 1) CHECK(pair.rank() == rank / 2);
    world.dist.all_reduce(x, {.group = all});  // as the default group
    CHECK(x.to_vector() == Floats{9});
  });
  CHECK_THAT(LocalWorld::refusal([] { distributed::group::WORLD.rank(); }),
             Catch::Contains("_get_default_group()"));
}

TEST_CASE("a group is split into groups of its ranks", "[distributed][names]") {
  LocalWorld world(5);
  world.spawn([&](int rank) {
    const ProcessGroup odd_one_out = world.dist.new_group({1, 2, 3, 4});
    if (rank == 0) return;
    const ProcessGroup half = world.dist.split_group(odd_one_out, {{0, 1}, {2, 3}});
    CHECK(half.ranks() == (rank < 3 ? std::vector{1, 2} : std::vector{3, 4}));
    const ProcessGroup few = world.dist.split_group(odd_one_out, {{3}});
    CHECK(few.is_non_member() == (rank != 4));
    const auto refusal = [&](const std::vector<std::vector<int>>& splits) {
      return LocalWorld::refusal([&] { world.dist.split_group(odd_one_out, splits); });
    };
    CHECK_THAT(refusal({}), Catch::Contains("split_ranks cannot be None or empty"));
    CHECK_THAT(refusal({{}}), Catch::Contains("the split group cannot be empty"));
    CHECK_THAT(refusal({{0, 1}, {1}}), Catch::Contains("must not overlap"));
    CHECK_THAT(refusal({{4}}), Catch::Contains("Group rank 4 is not part of group"));
  });
}

TEST_CASE("a future gives what becomes of a work's tensor", "[distributed][names]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({static_cast<float>(rank + 1)});
    const auto work = world.dist.all_reduce(x, {.async_op = true});
    auto future = work.get_future();
    auto doubled = future.then([](const Tensor& sum) { return sum * 2; });
    CHECK(doubled.wait().to_vector() == Floats{6});
    CHECK(future.wait().to_vector() == Floats{3});
    CHECK(future.done());
    CHECK_THAT(LocalWorld::refusal([] { distributed::Work().get_future(); }),
               Catch::Contains("the Work is None"));
  });
}

TEST_CASE("the host has no NCCL, Gloo or MPI, and calls are always compared",
          "[distributed][names]") {
  LocalWorld world(1);
  CHECK(world.dist.is_available());
  CHECK_FALSE(world.dist.is_nccl_available());
  CHECK_FALSE(world.dist.is_gloo_available());
  CHECK_FALSE(world.dist.is_mpi_available());
  CHECK(world.dist.get_debug_level() == distributed::DebugLevel::detail);
}

}  // namespace
}  // namespace kernbench::test::names_test
