// Ranks of which one is simulated for others although they do not do quite the same.

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>

#include "ccl/backend/ahbm_registration.h"
#include "ccl/core/config.h"
#include "ccl/core/lower_bound.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::nearly_alike_test {
namespace {

using distributed::CollectiveKind;

constexpr int kRanks = 4;
constexpr std::int64_t kCount = 1000;

struct Run {
  Time took;
  Time modelled;  // of it
};

// Runs a collective of f32 on the one rank that stands for all of a ring.
Run run(const std::string& algorithm, const std::function<void(RuntimeContext&, Tensor&)>& call) {
  ccl::prepare_program();
  const auto config = ccl::Config::parse("defaults: {algorithm: " + algorithm + "}");
  RuntimeContext torch(link_topology(SipTopology::ring_1d, kRanks),
                       {.ccl = std::make_shared<const ccl::Config>(config),
                        .data = false,
                        .fold = 1,
                        .folds_nearly = true});
  torch.distributed.init_process_group("ahbm");
  Time took{0};
  torch.multiprocessing.spawn(
      [&](int rank) {
        torch.ahbm.set_device(rank);
        Tensor x = torch.zeros({kCount}, {.dp = DPPolicy::on_one_pe()});
        const Time begin = torch.engine().now();
        call(torch, x);
        torch.ahbm.synchronize();
        took = torch.engine().now() - begin;
      },
      {}, kRanks);
  return {took, simulation_of(torch).attachments().get<distributed::ModelledTime>().sum};
}

TEST_CASE("a collective whose members do unlike things takes the time of its model",
          "[ccl][folding]") {
  const Topology ring = link_topology(SipTopology::ring_1d, kRanks);
  const Run broadcast =
      run("auto", [](RuntimeContext& torch, Tensor& x) { torch.distributed.broadcast(x, 0); });
  CHECK(broadcast.took == broadcast.modelled);
  CHECK(broadcast.took >= ccl::collective_lower_bound(ring, {{0, 1, 2, 3}},
                                                      CollectiveKind::broadcast, 4 * kCount, 0));
  const Run tree = run("tree_allreduce",
                       [](RuntimeContext& torch, Tensor& x) { torch.distributed.all_reduce(x); });
  CHECK(tree.took == tree.modelled);
  CHECK(tree.took >= ccl::all_reduce_lower_bound(ring, 4 * kCount));
}

TEST_CASE("no rank stands for others where ranks are PEs", "[ccl][folding]") {
  ccl::prepare_program();
  for (const std::string algorithm : {"ring_allreduce", "mesh_allreduce", "tree_allreduce"}) {
    for (const int ranks : {2, 4, 8}) {
      CAPTURE(algorithm, ranks);
      const auto config = ccl::Config::parse("defaults: {algorithm: " + algorithm +
                                             ", world_size: " + std::to_string(ranks) + "}");
      const auto begin = [&] {
        RuntimeContext torch(
            round_topology(SipTopology::ring_1d, 4),
            {.ccl = std::make_shared<const ccl::Config>(config), .data = false, .fold = 1});
        torch.distributed.init_process_group("ahbm");
      };
      CHECK_THAT(error_of<CollectiveMismatchError>(begin), Says("KB-C026", "its ranks are PEs"));
    }
  }
}

}  // namespace
}  // namespace kernbench::test::nearly_alike_test
