// Ranks that poll their works, on the device.

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::polling_test {
namespace {

// When an all_reduce of three ranks ends, of which the first `pollers` poll and the others wait.
Time end_of_all_reduce(int pollers) {
  RuntimeContext torch(link_topology(SipTopology::ring_1d, 3));
  torch.distributed.init_process_group("ahbm");
  Time end{0};
  run_on_devices(torch, 3, [&](int rank) {
    const Tensor x = torch.ones({300});
    const distributed::Work work =
        torch.distributed.all_reduce(x, ReduceOp::sum, {.async_op = true});
    if (rank < pollers) {
      while (!work.is_completed()) {
      }
    } else {
      work.wait();
      torch.ahbm.synchronize();
    }
    end = std::max(end, torch.engine().now());
    CHECK(x.at({299}) == 3);
  });
  return end;
}

TEST_CASE("any number of ranks may poll, and time is what it is when they wait", "[ccl][polling]") {
  const Time waited = end_of_all_reduce(0);
  CHECK(waited > Time{0});
  for (const int pollers : {1, 2, 3}) CHECK(end_of_all_reduce(pollers) == waited);
}

TEST_CASE(
    "a rank that makes a work for each look lets others go on, and is told when nobody is "
    "left",
    "[ccl][polling]") {
  RuntimeContext torch(link_topology(SipTopology::ring_1d, 2));
  torch.distributed.init_process_group("ahbm");
  bool has_received = false;
  int sent = 0;
  const std::string text = error_of<DeadlockError>([&] {
    run_on_devices(torch, 2, [&](int rank) {
      const Tensor x = torch.ones({1});
      if (rank == 1) {
        torch.distributed.recv(x, 0);
        has_received = true;
        return;
      }
      while (!torch.distributed.isend(x, 1).is_completed()) ++sent;
    });
  });
  CHECK(has_received);
  CHECK(sent < 22'000);  // few for each instant at which anything happens
  CHECK(text.starts_with("[KB-D002] no progress: rank 0 asked 20000 times at t="));
}

}  // namespace
}  // namespace kernbench::test::polling_test
