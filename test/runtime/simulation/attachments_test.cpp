// State that upper layers keep with a context.

#include "runtime/simulation/attachments.h"

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test::attachments_test {
namespace {

struct Count {
  int value = 0;
};
struct Other {
  int value = 5;
};
template <class T>
using PerRank = runtime::PerRank<T>;

// The caller's.
template <class T>
T& own(RuntimeContext& torch) {
  return simulation_of(torch).attachments().get<PerRank<T>>().of(simulation_of(torch).local());
}

TEST_CASE("each type has one slot in each context", "[attachments]") {
  RuntimeContext torch(round_topology());
  RuntimeContext other(round_topology());
  own<Count>(torch).value = 1;
  CHECK(own<Count>(torch).value == 1);
  CHECK(own<Other>(torch).value == 5);
  CHECK(own<Count>(other).value == 0);
}

TEST_CASE("each rank has a state of its own, that ends with its spawn", "[attachments]") {
  RuntimeContext torch(round_topology());
  own<Count>(torch).value = 100;
  const auto run = [&] {
    run_ranks(torch, 2, [&](int rank) {
      CHECK(own<Count>(torch).value == 0);
      own<Count>(torch).value = rank + 1;
      const Tensor x = torch.zeros({1});
      torch.launch(
          "wait", [](tl::Context&, const tl::Pointer&) {}, x);
      torch.ahbm.synchronize();  // the other rank runs
      CHECK(own<Count>(torch).value == rank + 1);
    });
  };
  run();
  run();
  CHECK(own<Count>(torch).value == 100);
  CHECK_THROWS(torch.multiprocessing.spawn(
      [&](int rank) {
        own<Count>(torch).value = 7;
        if (rank == 1) throw 1;
      },
      {}, 2));
  run();
}

TEST_CASE("a run that failed and was not joined leaves nothing to the next", "[attachments]") {
  RuntimeContext torch(round_topology());
  multiprocessing::ProcessContext failing = torch.multiprocessing.spawn(
      [&](int) {
        own<Count>(torch).value = 7;
        throw 1;
      },
      std::tuple<>(), 2, {.join = false});
  const Tensor x = torch.zeros({1});
  torch.launch(
      "wait", [](tl::Context&, const tl::Pointer&) {}, x);
  CHECK_THROWS(torch.ahbm.synchronize());
  CHECK_THROWS(failing.join());
  torch.multiprocessing.spawn([&](int) { CHECK(own<Count>(torch).value == 0); }, {}, 2);
}

}  // namespace
}  // namespace kernbench::test::attachments_test
