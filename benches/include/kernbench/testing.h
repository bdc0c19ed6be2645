// Tests of several ranks, for Catch2 (2 or 3):
//
//   #include <catch2/catch.hpp>
//   #include <kernbench/testing.h>
//
//   TEST_CASE("every rank ends with the sum") {
//     kernbench::testing::World world(4);
//     world.run([&](int rank) {
//       auto x = world.torch.full({1024}, rank);
//       world.torch.distributed.all_reduce(x);
//       kernbench::testing::assert_close(x, std::vector<float>(1024, 0 + 1 + 2 + 3));
//     });
//   }
//
// What a rank throws or asserts fails the test with the rank's number and the others' states; a
// deadlock fails it at once.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "benches/inputs.h"
#include "kernbench/kernbench.h"
#include "runtime/testing/assertions.h"

namespace kernbench::testing {

// Ranks on a topology, each on the device of its own number.
class World {
 public:
  // A ring of `ranks` small devices, and the values of `local`: what tests of values want.
  explicit World(int ranks) : World(ring_of(ranks), "local") {}
  // Any topology, and a backend: with "ahbm" collectives also take their time.
  explicit World(const Topology& topology, std::string_view backend = "ahbm",
                 RuntimeOptions options = {})
      : torch(topology, std::move(options)) {
    torch.distributed.init_process_group(backend);
  }

  int size() const { return torch.distributed.get_world_size(); }

  // Runs body(rank) on every rank.
  void run(const std::function<void(int rank)>& body) {
    std::string failure;
    try {
      torch.multiprocessing.spawn(
          [&](int rank) {
            torch.ahbm.set_device(rank);
            body(rank);
          },
          {}, size());
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!failure.empty()) FAIL(failure);
  }

  RuntimeContext torch;

 private:
  static Topology ring_of(int ranks) {
    return benches::in_ring(benches::load_topology("tiny"), ranks);
  }
};

}  // namespace kernbench::testing
