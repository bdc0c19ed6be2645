// How long Megatron's parallel state lives: with its context, or with the spawn that made it.

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/distributed/group.h"
#include "test/runtime/distributed/local_world.h"
#include "tp/parallel_groups.h"
#include "tp/parallel_state.h"

namespace kernbench::test::parallel_state_life_test {
namespace {

TEST_CASE("what a driver initializes is gone when it destroys it, groups and all",
          "[tp][parallel_state]") {
  LocalWorld world(4);
  for (int round = 0; round < 3; ++round) {
    tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 2});
    std::vector<std::weak_ptr<distributed::Group>> allocated;
    world.spawn([&](int) {
      const tp::RankGroups* groups = tp::find_groups(world.torch);
      REQUIRE(groups != nullptr);
      for (const distributed::ProcessGroup& group : *groups) {
        if (group.group() != nullptr) allocated.push_back(group.group());
      }
    });
    CHECK(allocated.size() >= 4 * 2);
    if (round == 1) {  // the caller may have destroyed one by itself
      world.dist.destroy_process_group(tp::get_tensor_model_parallel_group(world.torch));
    }
    tp::destroy_model_parallel(world.torch);
    CHECK(std::ranges::all_of(allocated, [](const auto& group) { return group.expired(); }));
    CHECK(world.dist.get_pg_count() == 1);
  }
  tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 2});
  world.dist.destroy_process_group();
  tp::destroy_model_parallel(world.torch);  // after all of them have gone
  CHECK_FALSE(tp::is_initialized(world.torch));
}

TEST_CASE("what a rank sets is its own, and ends with its spawn", "[tp][parallel_state]") {
  LocalWorld world(4);
  RuntimeContext& torch = world.torch;
  tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = 4});
  world.spawn([&](int rank) {
    if (rank == 1) {
      tp::set_tensor_model_parallel_rank(torch, 7);
      tp::set_tensor_model_parallel_world_size(torch, 9);
    }
    world.dist.barrier();
    CHECK(tp::get_tensor_model_parallel_rank(torch) == (rank == 1 ? 7 : rank));
    CHECK(tp::get_tensor_model_parallel_world_size(torch) == (rank == 1 ? 9 : 4));
    if (rank == 1) tp::set_tensor_model_parallel_rank(torch, std::nullopt);
    CHECK(tp::get_tensor_model_parallel_rank(torch) == rank);
  });
  world.spawn([&](int rank) {
    CHECK(tp::get_tensor_model_parallel_world_size(torch) == 4);
    CHECK(tp::get_tensor_model_parallel_rank(torch) == rank);
  });
}

TEST_CASE("what ranks initialize ends with their spawn", "[tp][parallel_state]") {
  LocalWorld world(4);
  const auto run = [&](int size) {
    world.spawn([&](int) {
      CHECK_FALSE(tp::is_initialized(world.torch));
      tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = size});
      CHECK(tp::get_tensor_model_parallel_world_size(world.torch) == size);
    });
  };
  run(2);
  CHECK_FALSE(tp::is_initialized(world.torch));
  run(4);
  CHECK_THROWS_AS(world.spawn([&](int rank) {
    tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 2});
    if (rank == 2) throw std::runtime_error("boom");
    world.dist.barrier();
  }),
                  SpawnException);
  run(1);
}

TEST_CASE("ranks destroy and initialize again, each at a time of its own", "[tp][parallel_state]") {
  LocalWorld world(4);
  tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 4});
  world.spawn([&](int) {
    for (const int size : {1, 2, 4}) {
      tp::destroy_model_parallel(world.torch);
      CHECK_FALSE(tp::is_initialized(world.torch));
      tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = size});
      CHECK(tp::get_tensor_model_parallel_world_size(world.torch) == size);
      Tensor x = world.tensor({1});
      world.dist.all_reduce(x, ReduceOp::sum,
                            {.group = tp::get_tensor_model_parallel_group(world.torch)});
      CHECK(x.item() == static_cast<float>(size));
    }
  });
  CHECK(tp::get_tensor_model_parallel_world_size(world.torch) == 4);
}

TEST_CASE("two contexts do not know of each other's groups", "[tp][parallel_state]") {
  LocalWorld one(2);
  LocalWorld other(4);
  tp::initialize_model_parallel(one.torch, {.tensor_model_parallel_size = 2});
  CHECK_FALSE(tp::is_initialized(other.torch));
  tp::initialize_model_parallel(other.torch, {.tensor_model_parallel_size = 4});
  CHECK(tp::get_tensor_model_parallel_world_size(one.torch) == 2);
  CHECK(tp::get_tensor_model_parallel_world_size(other.torch) == 4);
}

}  // namespace
}  // namespace kernbench::test::parallel_state_life_test
