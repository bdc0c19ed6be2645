// Small programs that go wrong, one for each class of failure.  Nothing is caught: what the user of
// a program like them sees is what failures_test.cpp compares.

#pragma once

#include <kernbench/kernbench.h>

#include <functional>
#include <string_view>
#include <vector>

#include "runtime/torch/run_ranks.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

struct FailureCase {
  std::string_view name;  // "A13-exit": its class in the table of failures, and which of it
  void (*run)();
};

std::vector<FailureCase> rank_cases();
std::vector<FailureCase> collective_cases();
std::vector<FailureCase> process_cases();
std::vector<FailureCase> device_cases();
std::vector<FailureCase> signal_cases();

// Ranks that each have a device of one PE.
struct Ranks {
  const int count;
  RuntimeContext torch;
  distributed::DistributedContext& dist = torch.distributed;

  explicit Ranks(int ranks, RuntimeOptions options = {})
      : count(ranks), torch(round_topology(SipTopology::ring_1d, ranks, 1), std::move(options)) {}

  void init(std::string_view backend = "local") { dist.init_process_group(backend); }
  void spawn(const std::function<void(int)>& body) { run_on_devices(torch, count, body); }
  Tensor ones(const Shape& shape = {4}, DType dtype = DType::f32) {
    return torch.ones(shape, {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
  }
  void pass_time() { ones({1}).copy_(RuntimeContext::tensor({0}, {1})); }  // 255.4 ns
};

// Ranks on the backend `local`.
struct LocalRanks : Ranks {
  explicit LocalRanks(int ranks) : Ranks(ranks) { init(); }
};

}  // namespace kernbench::test
