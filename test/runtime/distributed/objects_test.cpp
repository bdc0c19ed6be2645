// Collectives of host objects.

#include <catch2/catch.hpp>
#include <string>

#include "test/runtime/distributed/local_world.h"

namespace kernbench::test {
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
}

}  // namespace
}  // namespace kernbench::test
