// A world of fewer ranks than the machine has SIPs: the first ones.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::smaller_world_test {

TEST_CASE("a world of two of four SIPs is the first two", "[ccl][world]") {
  RuntimeContext torch{round_topology(SipTopology::ring_1d, 4, 1, 2, 1)};
  auto& dist = torch.distributed;
  SECTION("made before spawn()") {
    dist.init_process_group("ahbm", {.world_size = 2});
  }
  SECTION("made by each rank") {}
  const bool is_made_by_ranks = !dist.is_initialized();
  run_on_devices(torch, 2, [&](int rank) {
    if (is_made_by_ranks) dist.init_process_group({.world_size = 2, .rank = rank});
    CHECK(dist.get_world_size() == 2);
    const Tensor x = torch.full({1, 8}, rank + 1, {.dp = {.cube = Shard::column_wise}});
    dist.all_reduce(x);
    CHECK(x.to_vector() == std::vector<float>(8, 3));
    dist.broadcast(x, 1);
    dist.barrier();
  });
  REQUIRE(!torch.engine().algorithms_used().empty());
  for (const runtime::AlgorithmUse& use : torch.engine().algorithms_used()) {
    CHECK(use.calls == 2);
    CHECK(use.algorithm == (use.collective == "broadcast" ? "chain" : "swing_whole_allreduce"));
    CHECK(use.is_configured == (use.collective == "all_reduce"));
  }
}

TEST_CASE("what a world of all SIPs ran by is known", "[ccl][world]") {
  RuntimeContext torch{round_topology(SipTopology::ring_1d, 2, 1)};
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 2, [&](int) {
    const Tensor x = torch.ones({8}, {.dp = DPPolicy::on_one_pe()});
    torch.distributed.all_reduce(x);
    torch.distributed.all_reduce(x, ReduceOp::max);
    torch.distributed.barrier();
  });
  std::vector<std::string> uses;
  for (const runtime::AlgorithmUse& use : torch.engine().algorithms_used()) {
    uses.push_back(std::string(use.collective) + " by " + std::string(use.algorithm) +
                   (use.is_configured ? ", as configured" : ""));
  }
  CHECK(uses == std::vector<std::string>{"all_reduce by swing_whole_allreduce, as configured",
                                         "barrier by swing_whole_allreduce"});
}

TEST_CASE("ranks agree on how large their world is", "[ccl][world]") {
  RuntimeContext torch{round_topology(SipTopology::ring_1d, 4, 1)};
  const auto refusal = [&](int world_size) {
    return error_of<CollectiveError>(
        [&] { torch.distributed.init_process_group("ahbm", {.world_size = world_size}); });
  };
  CHECK_THAT(refusal(5), test::Says("KB-R002", "world_size", "5", "1", "'round'", "4"));
  CHECK(refusal(0).starts_with("[KB-R002] world_size (0) is not between 1 and "));
  std::string second;
  run_ranks(torch, 2, [&](int rank) {
    if (rank == 0) {
      torch.distributed.init_process_group({.world_size = 2});
      torch.zeros({1}).copy_(RuntimeContext::tensor({1}, {1}));  // the other one runs meanwhile
      return;
    }
    second =
        error_of<CollectiveError>([&] { torch.distributed.init_process_group({.world_size = 3}); });
  });
  CHECK_THAT(second, test::Says("KB-R002", "world_size", "3", "2"));
}

}  // namespace kernbench::test::smaller_world_test
