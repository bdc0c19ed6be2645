// Nodes of nodes, and grids in nodes: what each level's links carry, and latencies on all of them.

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <vector>

#include "ccl/core/algorithm.h"
#include "ccl/core/plan.h"
#include "sim_engine/topology/sip_network.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::node_levels_test {
namespace {

using distributed::CollectiveKind;

constexpr Time kAlpha{500'000};

// Bytes take no time, so what is left is a message on each level, there and back.  PEs take
// messages in the order of the plan: if one between nodes took longer than those inside together,
// others would wait for it.
TEST_CASE("on three levels of links, hierarchical takes twice the latency of each",
          "[ccl][timing][network]") {
  const SipTopology kind = GENERATE(SipTopology::full_mesh, SipTopology::ring_1d);
  Topology topology = in_boards(link_topology(kind, 8), 2, 2);
  topology.system.sip_link.bandwidth = topology.system.nodes.link.bandwidth =
      topology.system.nodes.inner.front().link.bandwidth = Bandwidth::unlimited();
  topology.system.nodes.link.latency = Time{900'000};
  const auto config = ccl::Config::parse(
      "defaults: {algorithm: hierarchical_allreduce, depth: 64, slot: 16 MiB, buffer_kind: sram}");
  KernelsUnderTest kernels(topology, DPPolicy::on_one_pe(), config);
  const Time messages = kAlpha + 2 * (Time{700'000} + Time{900'000});
  CHECK(kernels.run(256) == 2 * messages);
}

TEST_CASE("a root sends blocks for other nodes before those for its own", "[ccl][network]") {
  const Topology topology = in_nodes(joined_topology(SipTopology::switched, 12), 4);
  std::vector<int> sips(12);
  std::iota(sips.begin(), sips.end(), 0);
  const ccl::GroupShape shape = ccl::shape_of_sips(topology, sips);
  for (const int root : {0, 6}) {
    ccl::Plan plan(CollectiveKind::scatter, root);
    ccl::find_algorithm("hierarchical")
        ->plan({shape, CollectiveKind::scatter, root, root, {}}, plan);
    std::map<int, int> takers;  // by stage
    for (const ccl::Move& move : plan.moves) {
      CHECK(move.time == 0);
      takers.emplace(move.stage, move.chunks.taker);
    }
    CHECK(takers.size() == 12);
    int sent = 0;
    for (const auto& [stage, taker] : takers) CHECK((taker / 4 == root / 4) == (sent++ >= 8));
  }
}

TEST_CASE("each level's links carry 2 (N - 1)/P n of an all_reduce", "[ccl][network]") {
  const Topology topology = in_boards(joined_topology(SipTopology::switched, 32), 4, 2);
  std::vector<int> sips(32);
  std::iota(sips.begin(), sips.end(), 0);
  const ccl::GroupShape shape = ccl::shape_of_sips(topology, sips);
  const sim::SipNetwork network(topology);
  std::map<int, int> chunks;  // of 32, by level, that SIP 0 sends
  ccl::Plan plan(CollectiveKind::all_reduce, 0);
  ccl::find_algorithm("hierarchical_allreduce")
      ->plan({shape, CollectiveKind::all_reduce, 0, 0, {}}, plan);
  CHECK(plan.chunk_count == 32);
  for (const ccl::Move& move : plan.moves) {
    for (const int to : move.to) chunks[network.level_between(0, to)] += move.chunks.count();
  }
  CHECK(chunks[0] == 2 * 3 * 8);  // 2 (4 - 1)/4 n
  CHECK(chunks[1] == 2 * 1 * 4);  // 2 (2 - 1)/2 of n/4
  CHECK(chunks[2] == 2 * 3 * 1);  // 2 (4 - 1)/4 of n/8
}

TEST_CASE("messages between boards go by another node where that takes less", "[ccl][network]") {
  Topology topology = in_boards(joined_topology(SipTopology::switched, 16), 4, 2);
  const auto latency = [&] { return sim::SipNetwork(topology).latency(0, 4); };
  CHECK(latency() == 2 * Time{700'000});  // out of a board, and into the other
  topology.system.nodes.inner.front().link.latency = Time{5'000'000};
  CHECK(latency() == 2 * 2 * Time{1'000'000});  // out of the node, in, out and in again
}

// SIPs that have a link to another board together stand elsewhere than those beside it.
TEST_CASE("a group is moved to the first SIPs only where each has links of its own",
          "[ccl][network]") {
  Topology topology = in_boards(joined_topology(SipTopology::switched, 16), 4, 2);
  CHECK(ccl::shift_to_first(topology, {6, 7}) == std::vector{0, 1});
  topology.system.nodes.inner.front().sips_per_link = 2;
  CHECK(ccl::shift_to_first(topology, {6, 7}) == std::vector{6, 7});
  topology.system.nodes.inner.front().sips_per_link = 1;
  topology.system.nodes.sips_per_link = 2;
  CHECK(ccl::shift_to_first(topology, {6, 7}) == std::vector{6, 7});
}

}  // namespace
}  // namespace kernbench::test::node_levels_test
