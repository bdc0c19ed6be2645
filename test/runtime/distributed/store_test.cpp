// torch.distributed.Store and its kinds, as torch 1.13.1's answer.

#include <catch2/catch.hpp>

#include "test/runtime/distributed/local_world.h"

namespace kernbench::test::store_test {
namespace {

using distributed::FileStore;
using distributed::HashStore;
using distributed::PrefixStore;
using distributed::Store;
using distributed::TCPStore;

TEST_CASE("a store answers as torch's does", "[distributed][store]") {
  LocalWorld world(1);
  const HashStore store(world.torch);
  store.set("a", "1");
  CHECK(store.get("a") == "1");
  CHECK(store.add("a", 5) == 6);
  CHECK(store.add("n", 2) == 2);
  CHECK(store.add("n", -3) == -1);
  CHECK(store.num_keys() == 2);
  CHECK(store.delete_key("a"));
  CHECK_FALSE(store.delete_key("a"));
  CHECK(store.compare_set("b", "x", "y") == "x");  // is not set by this
  CHECK(store.num_keys() == 1);
  CHECK(store.compare_set("c", "", "y") == "y");
  CHECK(store.compare_set("c", "y", "z") == "z");
  CHECK(store.compare_set("c", "y", "w") == "z");
  const PrefixStore prefixed("pre", store);
  prefixed.set("k", "v");
  CHECK(store.get("pre/k") == "v");
  CHECK(prefixed.num_keys() == 3);
}

TEST_CASE("a key is waited for until another rank sets it", "[distributed][store]") {
  LocalWorld world(2);
  std::vector<std::string> got(2);
  world.spawn([&](int rank) {
    const FileStore store(world.torch, "init.store");
    const TCPStore other(world.torch, "localhost", 29500);
    if (rank == 1) other.set("later", "7");
    if (rank == 1) store.set("from 1", "one");
    if (rank == 0) store.set("from 0", "zero");
    store.wait({"from 0", "from 1"});
    got[static_cast<std::size_t>(rank)] = store.get(rank == 0 ? "from 1" : "from 0");
    CHECK(other.get("later") == "7");
  });
  CHECK(got == std::vector<std::string>{"one", "zero"});
  CHECK(FileStore(world.torch, "init.store").num_keys() == 0);  // it ended with its ranks
}

TEST_CASE("wrong uses of a store are refused", "[distributed][store]") {
  LocalWorld world(2);
  CHECK_THAT(LocalWorld::refusal([] { Store().set("a", "1"); }), Catch::Contains("is None"));
  const HashStore store(world.torch);
  store.set("x", "nope");
  CHECK_THAT(LocalWorld::refusal([&] { store.add("x", 1); }), Catch::Contains("KB-C020"));
  store.set("x", std::to_string(INT64_MAX));
  CHECK_THAT(LocalWorld::refusal([&] { store.add("x", 1); }), Catch::Contains("KB-C020"));
  CHECK(store.get("x") == std::to_string(INT64_MAX));
  const std::string deadlock =
      error_of<DeadlockError>([&] { world.spawn([&](int) { store.get("never"); }); });
  CHECK_THAT(deadlock, Catch::Contains("the key 'never' of a Store"));
}

TEST_CASE("init_process_group takes a store as torch does", "[distributed][store]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2, 1));
  distributed::register_local_backend();
  auto& dist = torch.distributed;
  const HashStore store(torch);
  const auto refusal = [&](const distributed::InitOptions& options) {
    return LocalWorld::refusal([&] { dist.init_process_group("local", options); });
  };
  CHECK_THAT(refusal({.store = store}),
             Catch::Contains("world_size must be positive if using store"));
  CHECK_THAT(refusal({.world_size = 2, .store = store}),
             Catch::Contains("rank must be non-negative if using store"));
  CHECK_THAT(refusal({.world_size = 2, .rank = 0, .init_method = "env://", .store = store}),
             Catch::Contains("Cannot specify both init_method and store."));
  torch.multiprocessing.spawn(
      [&](int rank) {
        dist.init_process_group("local", {.world_size = 2, .rank = rank, .store = store});
        CHECK(dist.get_world_size() == 2);
      },
      std::tuple{}, 2);
}

}  // namespace
}  // namespace kernbench::test::store_test
