// Collectives of host objects.

#include <catch2/catch.hpp>
#include <string>

#include "test/runtime/distributed/local_world.h"

namespace kernbench::test::objects_test {
namespace {

using Strings = std::vector<std::string>;

TEST_CASE("objects of any type go to every rank", "[distributed][objects]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    Strings all;
    world.dist.all_gather_object(all, std::string(static_cast<std::size_t>(rank), 'x'));
    CHECK(all == Strings{"", "x", "xx"});
    world.dist.all_gather_object(all, "same");
    CHECK(all == Strings{"same", "same", "same"});
    Strings list = rank == 1 ? Strings{"a", "b"} : Strings{"", ""};
    world.dist.broadcast_object_list(list, {.src = 1});
    CHECK(list == Strings{"a", "b"});
    Strings gathered;
    world.dist.gather_object(std::to_string(rank), rank == 2 ? &gathered : nullptr, {.dst = 2});
    CHECK(gathered == (rank == 2 ? Strings{"0", "1", "2"} : Strings{}));
    const Strings given{"p", "q", "r"};
    Strings mine;
    world.dist.scatter_object_list(mine, rank == 0 ? &given : nullptr, {.src = 0});
    CHECK(mine == Strings{given[static_cast<std::size_t>(rank)]});
  });
}

TEST_CASE("the rank 0 is where objects come from and go to unless it is said",
          "[distributed][objects]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    Strings list = rank == 0 ? Strings{"a"} : Strings{};
    world.dist.broadcast_object_list(list);
    CHECK(list == Strings{"a"});
    Strings all;
    rank == 0 ? world.dist.gather_object(std::string("x"), &all)
              : world.dist.gather_object(std::string("y"));
    CHECK(all == (rank == 0 ? Strings{"x", "y"} : Strings{}));
    const Strings given{"p", "q"};
    Strings mine;
    rank == 0 ? world.dist.scatter_object_list(mine, &given) : world.dist.scatter_object_list(mine);
    CHECK(mine == Strings{given[static_cast<std::size_t>(rank)]});
  });
}

TEST_CASE("lists of objects are sent and received, beside tensors", "[distributed][objects]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({static_cast<float>(rank)});
    if (rank == 0) {
      const distributed::Work sent = world.dist.isend(x, 2);
      world.dist.send_object_list(Strings{"a", "b"}, 2);
      sent.wait();
      return;
    }
    if (rank == 1) {
      world.dist.send_object_list(Strings{"c"}, 2, {.tag = 1});
      return world.dist.send_object_list(Strings{}, std::nullopt, {.group_dst = 2});
    }
    Strings list;
    CHECK(world.dist.recv_object_list(list, std::nullopt, {.tag = 1}) == 1);
    CHECK(list == Strings{"c"});
    CHECK(world.dist.recv_object_list(list, std::nullopt, {.group_src = 1}) == 1);
    CHECK(list.empty());
    CHECK(world.dist.recv_object_list(list) == 0);
    CHECK(list == Strings{"a", "b"});
    CHECK(world.dist.recv(x, 0) == 0);
    CHECK(x.item() == 0);
  });
  const std::string text = error_of<DeadlockError>([&] {
    world.spawn([&](int rank) {
      Strings list;
      if (rank == 0) world.dist.recv_object_list(list, 1);
      if (rank == 1) world.dist.send(world.tensor({1}), 0);
    });
  });
  CHECK(text.find("wait-for cycle: rank 0 -> rank 1 -> rank 0") != std::string::npos);
}

TEST_CASE("different collectives of objects are a mismatch", "[distributed][objects]") {
  LocalWorld world(2);
  CHECK(error_of<CollectiveMismatchError>([&] {
          world.spawn([&](int rank) {
            Strings list(2);
            Strings mine;
            rank == 0 ? world.dist.broadcast_object_list(list, {.src = 0})
                      : world.dist.scatter_object_list<std::string>(mine, nullptr, {.src = 0});
          });
        }).find("Op type: broadcast_object_list vs scatter_object_list") != std::string::npos);
}

TEST_CASE("objects of different types are a mismatch", "[distributed][objects]") {
  LocalWorld world(2);
  CHECK(error_of<CollectiveMismatchError>([&] {
          world.spawn([&](int rank) {
            std::vector<int> ints;
            Strings strings;
            rank == 0 ? world.dist.all_gather_object(ints, 1)
                      : world.dist.all_gather_object(strings, std::string("x"));
          });
        }).ends_with("Ranks brought objects of different types to all_gather_object"));
  CHECK(error_of<CollectiveMismatchError>([&] {
          world.spawn([&](int rank) {
            Strings strings;
            if (rank == 0) world.dist.send_object_list(std::vector<int>{1}, 1);
            if (rank == 1) world.dist.recv_object_list(strings, 0);
          });
        }).ends_with("Ranks brought objects of different types to recv_object_list"));
}

}  // namespace
}  // namespace kernbench::test::objects_test
