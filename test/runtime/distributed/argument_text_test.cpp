// Tests the errors of misuse word for word: the rows of PYTORCH.md 1.3 that are about arguments.
//
// Tested elsewhere:
//   distributed_test.cpp    before init; init twice; unknown backend; bad URL; rank >= world;
//                           destroy before init, or twice
//   groups_test.cpp         destroy of an unknown group; a group that is not registered
//   messages_test.cpp       send or recv to oneself; dst out of range; P2POp with a wrong op;
//                           batches that mix groups, or are empty
//   test/golden/failures.txt  A4 to A10: ranks that differ in operation, shape, type, reduction,
//                           root or order
//
// Not there to be misused:
//   a timeout of another type, what is no tensor         do not compile
//   a store, env:// without its variables                one process needs none, and reads none
//   types that cannot be reduced                         f16, bf16 and f32 are all there are
//   ReduceOp.AVG, all_gather_into_tensor,
//   reduce_scatter, all_to_all                           are there: local_backend_test.cpp
//   barrier(device_ids), a coalescing manager            there is no such argument, no such class

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/runtime/distributed/local_world.h"

namespace kernbench::test::argument_text_test {
namespace {

template <class Action>
std::string refusal(Action action) {
  return LocalWorld::refusal(action);
}

TEST_CASE("tensors of one call lie on one device", "[distributed][texts]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const Tensor own = world.zeros({2});
    world.torch.ahbm.set_device((rank + 1) % 3);
    const Tensor other = world.zeros({6});
    CHECK(refusal([&] { world.dist.all_gather_into_tensor(other, own); }) ==
          fmt::format("[KB-C020] all_gather_into_tensor: its tensors lie on devices {} and {}; "
                      "those of one call must lie on one device",
                      std::min(rank, (rank + 1) % 3), std::max(rank, (rank + 1) % 3)));
  });
  world.spawn([&](int) { world.dist.barrier(); });  // nobody has called anything
}

TEST_CASE("wrong tensors and lists", "[distributed][texts]") {
  LocalWorld world(2);
  world.spawn([&](int) {
    const Tensor f32 = world.zeros({2}), f16 = world.zeros({2}, DType::f16);
    const Tensor four = world.zeros({4});
    auto& dist = world.dist;
    CHECK(refusal([&] {
            dist.all_gather({f16, f16}, f32);
          }) ==
          "[KB-C020] Invalid usage of tensors with different dtypesFound torch.float32 and  "
          "torch.float16");
    CHECK(refusal([&] { dist.all_gather({f32}, f32); }) ==
          "[KB-C020] ProcessGroupLocal::allgather: invalid output tensor list at index 0 (expected "
          "length 2, got 1)");
    CHECK(refusal([&] { dist.all_gather_into_tensor(f32, f32); }) ==
          "[KB-C020] output tensor size must be equal to world_size times input tensor size");
    CHECK(refusal([&] { dist.all_gather_into_tensor(four, f16); }) ==
          "[KB-C020] output tensor must have the same type as input tensor");
    CHECK(refusal([&] { dist.reduce_scatter_tensor(f32, f32); }) ==
          "[KB-C020] input tensor must be the same size as output size times world size");
    CHECK(refusal([&] { dist.reduce_scatter(f32, {f32}); }) ==
          "[KB-C020] ProcessGroupLocal::reduce_scatter: invalid input tensor list at index 0 "
          "(expected length 2, got 1)");
    const Tensor three = world.zeros({3});
    CHECK(refusal([&] { dist.all_to_all_single(three, three); }) ==
          "[KB-C020] Tensor's dim 0 does not divide equally across group size");
    const std::vector<std::int64_t> one = {3}, wrong = {1, 1}, negative = {-1, 4};
    CHECK(refusal([&] { dist.all_to_all_single(three, three, one, one); }) ==
          "[KB-C020] Number of tensor splits not equal to group size");
    CHECK(refusal([&] { dist.all_to_all_single(three, three, wrong, wrong); }) ==
          "[KB-C020] Split sizes doesn't match total dim 0 size");
    CHECK(refusal([&] { dist.all_to_all_single(three, three, negative, negative); }) ==
          "[KB-C020] Split sizes must not be negative, got -1");
  });
}

TEST_CASE("wrong roots", "[distributed][texts]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    auto& dist = world.dist;
    const Tensor x = world.zeros({1});
    CHECK(refusal([&] { dist.broadcast(x, 7); }) ==
          "[KB-C020] ProcessGroupLocal::broadcast: invalid root rank: 7");
    CHECK(refusal([&] { dist.reduce(x, -1); }) ==
          "[KB-C020] ProcessGroupLocal::reduce: invalid root rank: -1");
    CHECK(refusal([&] { dist.broadcast(x, {.src = 0, .group_src = 0}); }) ==
          "[KB-C020] Can't specify both group_rank and global_rank");
    CHECK(refusal([&] { dist.broadcast(x, distributed::SourceOptions{}); }) ==
          "[KB-C020] Must specify global_rank or group_rank");
    const auto pair = dist.new_group({0, 2});
    if (rank == 1) return;
    CHECK(refusal([&] { dist.broadcast(x, 1, {.group = pair}); }) ==
          "[KB-C020] Global rank 1 is not part of group <1>");
    CHECK(refusal([&] { dist.broadcast(x, {.group = pair, .group_src = 5}); }) ==
          "[KB-C020] Group rank 5 is not part of group <1>");
    CHECK(refusal([&] { dist.get_group_rank(pair, 1); }) ==
          "[KB-C020] Global rank 1 is not part of group <1>");
    CHECK(refusal([&] { dist.get_global_rank(pair, 5); }) ==
          "[KB-C020] Group rank 5 is not part of group <1>");
  });
}

TEST_CASE("lists of gather and scatter on the wrong rank", "[distributed][texts]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    auto& dist = world.dist;
    const Tensor x = world.zeros({1});
    const std::vector<Tensor> list = {x, x};
    const std::string gathers = refusal([&] { rank == 0 ? dist.gather(x) : dist.gather(x, list); });
    CHECK(gathers ==
          (rank == 0
               ? "[KB-C020] Argument ``gather_list`` must be specified on destination rank."
               : "[KB-C020] Argument ``gather_list`` must NOT be specified on non-destination "
                 "ranks."));
    const std::string scatters =
        refusal([&] { rank == 0 ? dist.scatter(x) : dist.scatter(x, list); });
    CHECK(scatters ==
          (rank == 0 ? "[KB-C020] Argument ``scatter_list`` must be specified on source rank."
                     : "[KB-C020] Argument ``scatter_list`` must NOT be specified on non-source "
                       "ranks."));
    if (rank == 0) {
      CHECK(refusal([&] { dist.gather(x, {x}); }) ==
            "[KB-C020] ProcessGroupLocal::gather: invalid output tensor list at index 0 (expected "
            "length 2, got 1)");
    }
  });
}

TEST_CASE("reduce ops that there are not", "[distributed][texts]") {
  LocalWorld world(1);
  Tensor x = world.zeros({1});
  CHECK(refusal([&] { world.dist.all_reduce(x, ReduceOp::band); }) ==
        "[KB-C020] Cannot use ReduceOp.BAND with non-integral dtype");
  CHECK(refusal([&] { world.dist.all_reduce(x, ReduceOp::premul_sum); }) ==
        "[KB-C020] Cannot use ReduceOp.PREMUL_SUM with local");
}

TEST_CASE("wrong ranks of a new group", "[distributed][texts]") {
  LocalWorld world(3);
  auto& dist = world.dist;
  CHECK(refusal([&] { dist.new_group({9}); }) ==
        "[KB-C020] Rank 9 is out of range. Valid ranks are 0 to 2 (world_size=3)");
  CHECK(refusal([&] {
          dist.new_group({0, 1, 2, 0});
        }) ==
        "[KB-C020] the new group's world size should be less or equal to the world size set by "
        "init_process_group");
  CHECK(refusal([&] {
          dist.new_group({0, 0});
        }) == "[KB-C020] ranks list must not contain duplicate entries, got [0, 0]");
  CHECK(refusal([&] { dist.new_group({}, {}); }) ==
        "[KB-C020] new_group: ranks is empty; give at least one, or none for all");
}

}  // namespace
}  // namespace kernbench::test::argument_text_test
