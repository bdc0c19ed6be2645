// Groups of some ranks.

#include <catch2/catch.hpp>

#include "runtime/torch/run_ranks.h"
#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::groups_test {
namespace {

using distributed::GroupMember;
using distributed::ProcessGroup;
using Elements = std::vector<float>;

TEST_CASE("a group of a default group that was destroyed is gone, though others have not left yet",
          "[distributed][groups]") {
  distributed::register_local_backend();
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2));
  run_on_devices(torch, 2, [&](int) {
    torch.distributed.init_process_group("local");
    const ProcessGroup old = torch.distributed.new_group({0, 1});
    torch.distributed.barrier();
    torch.distributed.destroy_process_group();
    torch.distributed.init_process_group("local");
    const Tensor x = torch.ones({1}, {.dp = DPPolicy::on_one_pe()});
    CHECK(error_of<CollectiveError>([&] {
            torch.distributed.all_reduce(x, {.group = old});
          }).starts_with("[KB-R002] "));
  });
}

TEST_CASE("a message to a rank that nobody started is refused at once", "[distributed][messages]") {
  LocalWorld world(2);
  const Tensor x = world.zeros({2});
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { world.dist.send(x, 1); }, [&] { world.dist.irecv(x, 1).wait(); }}) {
    CHECK(error_of<DeadlockError>(call).find("no other rank was started") != std::string::npos);
  }
  Tensor(x).copy_(RuntimeContext::tensor({1, 2}, {2}));  // which nothing has under way
}

TEST_CASE("groups at once, each with its own sum", "[distributed][groups]") {
  LocalWorld world(4);
  world.spawn([&](int rank) {
    const ProcessGroup even = world.dist.new_group({0, 2});
    const ProcessGroup odd = world.dist.new_group({1, 3});
    const ProcessGroup own = rank % 2 == 0 ? even : odd;
    CHECK((rank % 2 == 0 ? odd : even) == GroupMember::NON_GROUP_MEMBER);
    CHECK(own.ranks() == (rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3}));
    CHECK(world.dist.get_rank(own) == rank / 2);
    CHECK(world.dist.get_world_size(own) == 2);
    Tensor x = world.tensor({static_cast<float>(rank)});
    // One group calls twice as often as the other.
    for (int i = 0; i <= rank % 2; ++i) {
      world.dist.all_reduce(x, ReduceOp::sum, {.group = own});
    }
    CHECK(x.item() == (rank % 2 == 0 ? 2.0F : 8.0F));
    CHECK(world.dist.get_pg_count() == 2);
  });
}

TEST_CASE("ranks of a group are sorted unless it is said otherwise", "[distributed][groups]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const ProcessGroup sorted = world.dist.new_group({2, 0});
    const ProcessGroup unsorted = world.dist.new_group({2, 0}, {.sort_ranks = false});
    if (rank == 1) return;
    CHECK(world.dist.get_rank(sorted) == rank / 2);
    CHECK(world.dist.get_rank(unsorted) == 1 - rank / 2);
    CHECK(world.dist.get_group_rank(unsorted, 2) == 0);
    CHECK(world.dist.get_global_rank(unsorted, 1) == 0);
    CHECK(world.dist.get_process_group_ranks(unsorted) == std::vector<int>{2, 0});
    // src counts over the world, group_src in the group.
    Tensor x = world.tensor({static_cast<float>(rank)});
    world.dist.broadcast(x, 2, {.group = unsorted});
    CHECK(x.item() == 2);
    Tensor y = world.tensor({static_cast<float>(rank)});
    world.dist.broadcast(y, {.group = unsorted, .group_src = 1});
    CHECK(y.item() == 0);
  });
}

TEST_CASE("a rank that is no member is warned, and its tensor stays", "[distributed][groups]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const ProcessGroup pair = world.dist.new_group({0, 1});
    CHECK(world.dist.get_rank(pair) == (rank == 2 ? -1 : rank));
    CHECK(world.dist.get_world_size(pair) == (rank == 2 ? -1 : 2));
    Tensor x = world.tensor({1});
    CHECK_FALSE(world.dist.all_reduce(x, ReduceOp::sum, {.group = pair}).defined());
    CHECK(x.item() == (rank == 2 ? 1.0F : 2.0F));
    if (rank == 2) {
      CHECK(LocalWorld::refusal([&] { world.dist.get_backend(pair); }) ==
            "[KB-R002] Invalid process group specified");
    }
  });
}

TEST_CASE("with local synchronization only members call", "[distributed][groups]") {
  LocalWorld world(4);
  world.spawn([&](int rank) {
    if (rank == 3) return;
    const distributed::NewGroupOptions local{.use_local_synchronization = true};
    const ProcessGroup pair = rank < 2 ? world.dist.new_group({0, 1}, local) : ProcessGroup();
    const ProcessGroup all = world.dist.new_group({2, 1, 0}, local);
    Tensor x = world.tensor({1});
    if (rank < 2) world.dist.all_reduce(x, ReduceOp::sum, {.group = pair});
    world.dist.all_reduce(x, ReduceOp::sum, {.group = all});
    CHECK(x.item() == 5);
  });
}

TEST_CASE("subgroups cut the world", "[distributed][groups]") {
  LocalWorld world(6);
  world.spawn([&](int rank) {
    const auto [own, all] = world.dist.new_subgroups(2);
    CHECK(all.size() == 3);
    CHECK(own.ranks() == std::vector<int>{rank / 2 * 2, rank / 2 * 2 + 1});
    CHECK(LocalWorld::refusal([&] { world.dist.new_subgroups(4); }) ==
          "[KB-C020] The world size (6) must be divisible by 'group_size=4'");
    CHECK_THAT(LocalWorld::refusal([&] {
                 world.dist.new_subgroups_by_enumeration({{0, 1}, {1, 2}});
               }),
               test::Says("KB-C020", "rank 1", "several subgroups", "overlap"));
  });
}

TEST_CASE("ranks that make different groups are a mismatch", "[distributed][groups]") {
  LocalWorld world(2);
  const std::string text = error_of<CollectiveMismatchError>([&] {
    world.spawn([&](int rank) {
      const std::vector<int> members{rank};
      world.dist.new_group(std::span(members));
    });
  });
  CHECK(text.find("aspects: Group: [0] vs [1]\n") != std::string::npos);
  CHECK(text.find("OpType=NEW_GROUP, Group=[0])") != std::string::npos);
}

TEST_CASE("a rank that does not make the group with the others is named", "[distributed][groups]") {
  LocalWorld world(3);
  CHECK(error_of<DeadlockError>([&] {
          world.spawn([&](int rank) {
            if (rank == 1) return;
            const ProcessGroup pair = world.dist.new_group({0, 2});
            Tensor x = world.tensor({1});
            world.dist.all_reduce(x, ReduceOp::sum, {.group = pair});
          });
        }).starts_with("[KB-C002] rank 1 finished without calling new_group#0, which rank"));
}

TEST_CASE("a destroyed group is not known any more", "[distributed][groups]") {
  LocalWorld world(2);
  world.spawn([&](int) {
    const ProcessGroup pair = world.dist.new_group({0, 1}, {.group_desc = "pair"});
    CHECK(pair.group_name() == "1");
    CHECK(pair.group_desc() == "pair");
    world.dist.barrier({.group = pair});
    world.dist.destroy_process_group(pair);
    CHECK(LocalWorld::refusal([&] { world.dist.barrier({.group = pair}); }) ==
          "[KB-R002] Group <1> is not registered, please create group with "
          "torch.distributed.new_group API");
    CHECK(LocalWorld::refusal([&] { world.dist.destroy_process_group(pair); }) ==
          "[KB-R002] Invalid process group specified");
    CHECK(world.dist.get_pg_count() == 1);
    world.dist.barrier();
  });
}

TEST_CASE("a group that ranks destroy is there again in the next spawn if a driver made it",
          "[distributed][groups]") {
  LocalWorld world(2);
  const ProcessGroup pair = world.dist.new_group({0, 1});
  world.dist.destroy_process_group(world.dist.new_group({1}));  // the driver need not be a member
  for (int i = 0; i < 2; ++i) {
    world.spawn([&](int) {
      Tensor x = world.tensor({1});
      world.dist.all_reduce(x, ReduceOp::sum, {.group = pair});
      CHECK(x.item() == 2);
      world.dist.destroy_process_group(pair);
      CHECK(LocalWorld::refusal([&] {
              world.dist.barrier({.group = pair});
            }).starts_with("[KB-R002] Group <1> is not registered"));
    });
  }
  world.dist.destroy_process_group(pair);
  world.spawn([&](int) {
    CHECK(LocalWorld::refusal([&] {
            world.dist.barrier({.group = pair});
          }).starts_with("[KB-R002] Group <1> is not registered"));
  });
}

TEST_CASE("a group may be destroyed under a work of it, which ends as ever",
          "[distributed][groups]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const ProcessGroup pair = world.dist.new_group({0, 2});
    if (rank == 1) return;
    const Tensor x = world.tensor({1});
    const Tensor y = world.tensor({static_cast<float>(rank)});
    if (rank == 2) world.tensor({1, 2, 3});  // let time pass
    const distributed::Work sum =
        world.dist.all_reduce(x, ReduceOp::sum, {.group = pair, .async_op = true});
    const distributed::Work message = rank == 0 ? world.dist.isend(y, 2, {.group = pair})
                                                : world.dist.irecv(y, 0, {.group = pair});
    world.dist.destroy_process_group(pair);
    CHECK_FALSE(sum.is_success());
    sum.wait();
    message.wait();
    CHECK(x.item() == 2);
    CHECK(y.item() == 0);
  });
}

TEST_CASE("nobody has a rank in a group that was destroyed", "[distributed][groups][error]") {
  LocalWorld world(2);
  world.spawn([&](int) {
    const ProcessGroup pair = world.dist.new_group({0, 1});
    world.dist.destroy_process_group(pair);
    for (const std::string& text :
         {LocalWorld::refusal([&] { world.dist.get_rank(pair); }),
          LocalWorld::refusal([&] { world.dist.get_world_size(pair); })}) {
      CHECK(text ==
            "[KB-R002] Group <1> is not registered, please create group with "
            "torch.distributed.new_group API");
    }
  });
}

TEST_CASE("a barrier does not meet a monitored one", "[distributed][error]") {
  LocalWorld world(2);
  CHECK_THAT(error_of<CollectiveMismatchError>([&] {
               world.spawn([&](int rank) {
                 rank == 0 ? static_cast<void>(world.dist.barrier())
                           : world.dist.monitored_barrier();
               });
             }),
             Catch::Contains("Op type: barrier vs monitored_barrier"));
}

TEST_CASE("a monitored barrier that waits for all names all that do not come",
          "[distributed][error]") {
  LocalWorld world(4);
  CHECK_THAT(error_of<DeadlockError>([&] {
               world.spawn([&](int rank) {
                 if (rank == 1) return;
                 if (rank == 2) return static_cast<void>(world.tensor({1, 2, 3}));  // takes longer
                 world.dist.monitored_barrier({.wait_all_ranks = true});
               });
             }),
             Catch::StartsWith("[KB-C021] [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier"));
}

TEST_CASE("a single driver makes groups for all ranks, and for all its spawns",
          "[distributed][groups]") {
  LocalWorld world(3);
  const ProcessGroup pair = world.dist.new_group({1, 2});
  for (int i = 0; i < 2; ++i) {
    world.spawn([&](int rank) {
      Tensor x = world.tensor({1});
      world.dist.all_reduce(x, ReduceOp::sum, {.group = pair});
      CHECK(x.item() == (rank == 0 ? 1.0F : 2.0F));
    });
  }
  world.dist.destroy_process_group();
  world.dist.init_process_group("local");
  CHECK(LocalWorld::refusal([&] { world.dist.barrier({.group = pair}); }) ==
        "[KB-R002] Group <1> is not registered, please create group with "
        "torch.distributed.new_group API");
}

}  // namespace
}  // namespace kernbench::test::groups_test
