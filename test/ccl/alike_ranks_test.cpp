// Ranks that stand alike in their network, and begin together, end together: what meets at one
// moment is served by where it comes from as seen from there, and not by the number of its rank.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <numeric>

#include "ccl/core/config.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/topology/sip_network.h"
#include "test/ccl/group_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::alike_ranks_test {
namespace {

using distributed::CollectiveKind;

// Networks in which all SIPs stand alike, with PEs, memories and links that many want at once.
std::vector<Topology> networks() {
  std::vector<Topology> all;
  for (const int p : {2, 3, 6}) {
    all.push_back(round_topology(SipTopology::ring_1d, p));
    all.push_back(joined_topology(SipTopology::full_mesh, p));
    all.push_back(joined_topology(SipTopology::switched, p));
  }
  all.push_back(round_topology(SipTopology::torus_2d, 3, 3));
  all.push_back(round_topology(SipTopology::torus_2d, 4, 2));
  for (Topology& topology : all) {
    topology.cube.pe_per_corner = 2;
    topology.cube.hbm.channels = topology.pe_count();
    topology.sip.cubes_w = 2;
    topology.pe.cpu_issue = Time{2'000};
    topology.pe.dma_setup = Time{10'000};
    topology.cube.hbm.latency = Time{100'000};
  }
  return all;
}

std::shared_ptr<const distributed::BackendConfig> by(CollectiveKind kind, std::string_view name) {
  return ccl::Config::parse(
      kind == CollectiveKind::all_reduce
          ? fmt::format("defaults: {{algorithm: {}}}", name)
          : fmt::format("rules: [{{{}: {{algorithm: {}}}}}]", traits_of(kind).name, name));
}

// Returns the time that each rank waits for a collective of `count` elements a member.
std::vector<std::int64_t> times_of(const Topology& topology, CollectiveKind kind,
                                   std::string_view name, std::int64_t count, const DPPolicy& dp) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<std::int64_t> times(ranks.size());
  run_group(topology, ranks,
            [&](const Member& m) {
              const Tensor block = m.torch.empty({count}, {.dp = dp});
              const Tensor whole = m.torch.empty({count * m.size()}, {.dp = dp});
              const Tensor other = m.torch.empty({count * m.size()}, {.dp = dp});
              auto& dist = m.torch.distributed;
              const Time begin = m.torch.engine().now();
              if (kind == CollectiveKind::all_reduce) dist.all_reduce(whole);
              if (kind == CollectiveKind::all_gather) dist.all_gather_into_tensor(whole, block);
              if (kind == CollectiveKind::reduce_scatter) dist.reduce_scatter_tensor(block, whole);
              if (kind == CollectiveKind::all_to_all) dist.all_to_all_single(other, whole);
              m.torch.ahbm.synchronize();
              times[static_cast<std::size_t>(m.rank)] = (m.torch.engine().now() - begin).count();
              return std::string();
            },
            {.ccl = by(kind, name), .data = false});
  return times;
}

struct Case {
  CollectiveKind kind;
  std::string_view algorithm;
  bool joins_all = false;  // it is for networks whose SIPs are all neighbours
};

// A collective whose algorithm treats all members alike, of tensors on one PE of each: where they
// lie on many, a rank's own block lies on other PEs than those of the next rank.
TEST_CASE("ranks that stand alike and begin together end together", "[ccl][ties][alike]") {
  using enum CollectiveKind;
  const auto [kind, algorithm, joins_all] =
      GENERATE(Case{all_reduce, "ring_allreduce"}, Case{all_reduce, "bidirectional_ring_allreduce"},
               Case{all_reduce, "direct_allreduce", true}, Case{all_gather, "ring"},
               Case{all_gather, "torus"}, Case{all_gather, "direct", true},
               Case{reduce_scatter, "ring"}, Case{reduce_scatter, "torus"},
               Case{reduce_scatter, "direct", true}, Case{all_to_all, "pairs"},
               Case{all_to_all, "pairs_at_once"}, Case{all_to_all, "pairs_spread"});
  for (const Topology& topology : networks()) {
    if (joins_all && !sim::SipNetwork(topology).joins_all()) continue;
    for (const std::int64_t count : {240, 5040, 50400}) {  // cut into chunks of one size
      const auto times = times_of(topology, kind, algorithm, count, DPPolicy::on_one_pe());
      CAPTURE(algorithm, topology.system.topology, topology.system.sip_count, count, times);
      CHECK(std::ranges::count(times, times.front()) == std::ssize(times));
    }
  }
}

// Each PE has chunks of its own of the same size, and does with them what its like does on the next
// rank.
TEST_CASE("ranks that stand alike add up in all PEs, and end together", "[ccl][ties][alike]") {
  const std::string_view algorithm =
      GENERATE("ring_allreduce", "bidirectional_ring_allreduce", "direct_allreduce");
  for (const Topology& topology : networks()) {
    if (algorithm == "direct_allreduce" && !sim::SipNetwork(topology).joins_all()) continue;
    const auto times = times_of(topology, CollectiveKind::all_reduce, algorithm, 50'400,
                                {.cube = Shard::column_wise, .pe = Shard::column_wise});
    CAPTURE(algorithm, topology.system.sip_count, times);
    CHECK(std::ranges::count(times, times.front()) == std::ssize(times));
  }
}

}  // namespace
}  // namespace kernbench::test::alike_ranks_test
