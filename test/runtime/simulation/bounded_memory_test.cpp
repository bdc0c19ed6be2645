// Loops that read no value keep a bounded part of what it is computed from (ADR-0020).

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <utility>
#include <vector>

#include "runtime/distributed/local_backend.h"
#include "runtime/functional/operators.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "test/runtime/stream/queued_topology.h"

namespace kernbench::test::bounded_memory_test {
namespace {

std::int64_t nodes_of(RuntimeContext& torch) {
  return simulation_of(torch).machine().memory().live_value_count();
}

// Kernels that have begun hold a few values besides.
constexpr std::int64_t kMostNodes = sim::DataExecutor::kFewNodes + 1000;

// A step takes some six nodes: x tends to 1.
void step_of(const Tensor& x, const Tensor& half) {
  x.mul_(half);
  x.add_(half);
}

TEST_CASE("a loop that reads nothing keeps few values, and computes the same", "[memory]") {
  const bool synchronizes = GENERATE(true, false);
  constexpr int kSteps = 30'000;  // of at least three nodes
  RuntimeContext torch(topology_with_issue(Time{1'000'000}), kQueued);
  const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  const Tensor half = torch.full({4}, 0.5, {.dp = DPPolicy::on_one_pe()});
  std::int64_t most = 0;
  for (int step = 0; step < kSteps; ++step) {
    step_of(x, half);
    if (synchronizes && step % 50 == 49) torch.ahbm.synchronize();
    most = std::max(most, nodes_of(torch));
  }
  CHECK(most > sim::DataExecutor::kFewNodes / 2);  // the loop would keep more
  CHECK(most <= kMostNodes);
  CHECK(x.to_vector() == std::vector<float>(4, 1));
}

TEST_CASE("what is computed early changes no time and no fingerprint", "[memory]") {
  const auto outcome = [](bool data) {
    RuntimeContext torch(topology_with_issue(Time{1'000'000}),
                         {.data = data, .launch_blocking = false});
    const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
    const Tensor half = torch.full({4}, 0.5, {.dp = DPPolicy::on_one_pe()});
    for (int step = 0; step < 15'000; ++step) step_of(x, half);
    return std::pair(torch.engine().fingerprint(), torch.engine().now());
  };
  CHECK(outcome(true) == outcome(false));
}

TEST_CASE("sums of a loop of collectives are kept bounded", "[memory]") {
  distributed::register_local_backend();
  RuntimeContext torch(small_topology(), kQueued);
  torch.distributed.init_process_group("local");
  std::int64_t most = 0;
  run_on_devices(torch, 2, [&](int) {
    const Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
    for (int step = 0; step < 30'000; ++step) {
      torch.distributed.all_reduce(x, {.op = ReduceOp::avg});
      most = std::max(most, nodes_of(torch));
    }
    CHECK(x.to_vector() == std::vector<float>(4, 1));
  });
  CHECK(most > sim::DataExecutor::kFewNodes / 2);
  CHECK(most <= kMostNodes);
}

// The host's memory in KiB.
long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long pages = 0;
  long resident = 0;
  statm >> pages >> resident;
  return resident * 4;
}

TEST_CASE("a hundred thousand steps end in the memory of the first thousand",
          "[memory][exhaustive]") {
  const bool data = GENERATE(true, false);
  RuntimeContext torch(topology_with_issue(Time{1'000'000}),
                       {.data = data, .launch_blocking = false});
  const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  const Tensor half = torch.full({4}, 0.5, {.dp = DPPolicy::on_one_pe()});
  for (int step = 1; step <= 100'000; ++step) {
    step_of(x, half);
    if (step == 1'000 || step == 100'000) {
      fmt::print("step {}: {} KiB, {} values\n", step, resident_kib(), nodes_of(torch));
    }
  }
  CHECK(nodes_of(torch) <= kMostNodes);
}

}  // namespace
}  // namespace kernbench::test::bounded_memory_test
