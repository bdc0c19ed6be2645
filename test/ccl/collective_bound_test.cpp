// Bounds of collectives by hand: on a ring of 6 SIPs with 500 ns and 20 ps per byte, n beta of 4096
// f32 is 327,680 ps; every SIP has two links.

#include <catch2/catch.hpp>
#include <numeric>

#include "ccl/core/lower_bound.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test::collective_bound_test {
namespace {

using distributed::Block;
using distributed::CollectiveCall;
using distributed::CollectiveKind;

constexpr Time kAlpha{500'000};
constexpr Time kBlock{4096 * 4 * 20};  // over one link

class Bounds {
 public:
  explicit Bounds(std::vector<int> sips) : sips_(std::move(sips)) {}

  // Every member gives `gives` blocks of 4096 elements and takes `takes`.
  Time of(CollectiveKind kind, std::size_t gives, std::size_t takes, int root = 0) {
    const Block block = distributed::whole(torch_.zeros({4096}, {.dp = DPPolicy::on_one_pe()}));
    const CollectiveCall call{.kind = kind,
                              .gives = std::vector<Block>(gives, block),
                              .takes = std::vector<Block>(takes, block),
                              .root = root};
    return ccl::collective_lower_bound(torch_.topology(), sips_, kind,
                                       std::vector<CollectiveCall>(sips_.size(), call));
  }

 private:
  RuntimeContext torch_{link_topology(SipTopology::ring_1d, 6)};
  std::vector<int> sips_;
};

TEST_CASE("collectives of a whole ring", "[ccl][bound]") {
  Bounds ring({0, 1, 2, 3, 4, 5});
  // Five blocks in through two links, from the nearest on; or news across the ring.
  CHECK(ring.of(CollectiveKind::all_gather, 1, 6) == 3 * kAlpha);
  CHECK(ring.of(CollectiveKind::all_reduce, 1, 1) == 3 * kAlpha);
  CHECK(ring.of(CollectiveKind::barrier, 0, 0) == Time{0});
  Bounds pair({2, 3});
  CHECK(pair.of(CollectiveKind::broadcast, 1, 1) ==
        kAlpha + kBlock);  // the other link leads nowhere
  CHECK(pair.of(CollectiveKind::all_reduce, 1, 1) == kAlpha + kBlock);
}

TEST_CASE("the busiest HBM slice reads what a member gives, and writes every copy of what it takes",
          "[ccl][bound]") {
  Topology topology = link_topology(SipTopology::ring_1d, 2);
  topology.cube.pe_per_corner = 2;
  topology.cube.hbm.channels = 2;
  topology.cube.hbm.bandwidth = Bandwidth{1'000'000'000};  // of a slice: 1 ns per byte
  RuntimeContext torch(topology);
  const auto bound = [&](CollectiveKind kind, const Tensor& gives, const Tensor& takes) {
    std::vector<CollectiveCall> calls(2);
    for (int rank = 0; rank < 2; ++rank) {
      auto& call = calls[static_cast<std::size_t>(rank)];
      call = {.kind = kind,
              .gives = {distributed::whole(gives)},
              .takes = {distributed::whole(takes)},
              .root = 0,
              .rank = rank};
    }
    return ccl::memory_lower_bound(topology, calls);
  };
  const auto made = [&](Shard pe) { return torch.zeros({1, 64}, {.dp = {.pe = pe}}); };
  const Tensor cut = made(Shard::column_wise);
  const Tensor copied = made(Shard::replicate);
  constexpr Time kAll{256'000};  // 64 f32
  CHECK(bound(CollectiveKind::all_reduce, cut, cut) == kAll / 2 * 2);
  CHECK(bound(CollectiveKind::all_reduce, copied, copied) == kAll);
  CHECK(bound(CollectiveKind::broadcast, copied, copied) == kAll);
  CHECK(bound(CollectiveKind::broadcast, cut, cut) == kAll / 2);
  CHECK(bound(CollectiveKind::reduce, cut, cut) == kAll / 2 * 2);
}

TEST_CASE("collectives of some SIPs of a ring", "[ccl][bound]") {
  Bounds group({0, 1, 2, 3});
  // SIP 1 takes three blocks through its two links, the first from next door; 0 and 3 are far.
  CHECK(group.of(CollectiveKind::all_gather, 1, 4) == 3 * kAlpha);
  // SIPs 5 and 1 have one link each to the others, over which two blocks come.
  CHECK(Bounds({5, 0, 1}).of(CollectiveKind::all_gather, 1, 3) == kAlpha + 2 * kBlock);
  // The block of SIP 0 travels three links to the root, SIP 3.
  CHECK(group.of(CollectiveKind::gather, 1, 4, 3) == 3 * kAlpha + kBlock / 2);
  CHECK(Bounds({1}).of(CollectiveKind::all_gather, 1, 1) == Time{0});
}

TEST_CASE("large blocks are bound by links, small ones by the way", "[ccl][bound]") {
  RuntimeContext torch(link_topology(SipTopology::ring_1d, 6));
  const Block block = distributed::whole(torch.zeros({1 << 20}, {.dp = DPPolicy::on_one_pe()}));
  const Time bytes{(std::int64_t{1} << 22) * 20};  // of one block over one link
  const auto bound = [&](CollectiveKind kind, std::size_t gives, std::size_t takes) {
    const CollectiveCall call{.kind = kind,
                              .gives = std::vector<Block>(gives, block),
                              .takes = std::vector<Block>(takes, block)};
    const std::vector<int> sips = {4, 1, 2};
    return ccl::collective_lower_bound(torch.topology(), sips, kind,
                                       std::vector<CollectiveCall>(sips.size(), call));
  };
  // Member 0, SIP 4, is two links from SIP 2, and three from SIP 1.  All that comes to it comes
  // over the link from SIP 3; it sends to SIP 1 the other way round.
  CHECK(bound(CollectiveKind::all_gather, 1, 3) == kAlpha + 2 * bytes);
  CHECK(bound(CollectiveKind::reduce_scatter, 3, 1) == kAlpha + 2 * bytes);
  CHECK(bound(CollectiveKind::all_to_all, 3, 3) == kAlpha + 2 * bytes);
  CHECK(bound(CollectiveKind::all_reduce, 1, 1) == kAlpha + bytes);
  CHECK(bound(CollectiveKind::broadcast, 1, 1) == 3 * kAlpha + bytes / 2);
  CHECK(bound(CollectiveKind::reduce, 1, 1) == kAlpha + bytes);
  CHECK(bound(CollectiveKind::gather, 1, 3) == kAlpha + 2 * bytes);
  CHECK(bound(CollectiveKind::scatter, 3, 1) == 2 * kAlpha + 2 * bytes / 2);
}

TEST_CASE("an all_reduce of all SIPs has the bound that probe shows", "[ccl][bound]") {
  for (const Topology& topology :
       {link_topology(SipTopology::ring_1d, 2), link_topology(SipTopology::ring_1d, 6),
        link_topology(SipTopology::torus_2d, 3, 2),
        link_topology(SipTopology::mesh_2d_no_wrap, 4)}) {
    RuntimeContext torch(topology);
    std::vector<int> sips(static_cast<std::size_t>(topology.system.sip_count));
    std::iota(sips.begin(), sips.end(), 0);
    for (const std::int64_t count : {0, 1, 1 << 20}) {
      const Block block = distributed::whole(torch.zeros({count}, {.dp = DPPolicy::on_one_pe()}));
      const CollectiveCall call{.kind = CollectiveKind::all_reduce,
                                .gives = {block},
                                .takes = {block},
                                .op = ReduceOp::max};
      CHECK(ccl::collective_lower_bound(topology, sips, CollectiveKind::all_reduce,
                                        std::vector(sips.size(), call)) ==
            ccl::all_reduce_lower_bound(topology, 4 * count));
    }
  }
}

TEST_CASE("blocks of one size on all SIPs have the bound of any request of that size",
          "[ccl][bound]") {
  Bounds ring({0, 1, 2, 3, 4, 5});
  const Topology topology = link_topology(SipTopology::ring_1d, 6);
  const auto bound = [&](CollectiveKind kind, Bytes block) {
    return ccl::collective_lower_bound(topology, kind, block);
  };
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}) {
    const bool gives_each =
        kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
    const bool takes_each =
        kind == CollectiveKind::all_gather || kind == CollectiveKind::all_to_all;
    CHECK(bound(kind, 4096 * 4) == ring.of(kind, gives_each ? 6 : 1, takes_each ? 6 : 1));
    CHECK(bound(kind, 0) == Time{0});
  }
  constexpr Bytes kBytes = 1 << 22;
  CHECK(bound(CollectiveKind::all_gather, kBytes) == kAlpha + Time{5 * kBytes * 20 / 2});
  CHECK(bound(CollectiveKind::all_reduce, kBytes) == kAlpha + Time{2 * 5 * kBytes * 20 / 12});
}

TEST_CASE("an all_to_all crosses as many links as its blocks' ways are long", "[ccl][bound]") {
  constexpr Bytes kBytes = 1 << 20;
  const auto bound = [](SipTopology kind, int w, int h) {
    return ccl::collective_lower_bound(link_topology(kind, w, h), CollectiveKind::all_to_all,
                                       kBytes);
  };
  // On a ring of 6 a member's blocks cross 1 + 1 + 2 + 2 + 3 links, of 2 for each member.
  CHECK(bound(SipTopology::ring_1d, 6, 1) == kAlpha + Time{9 * kBytes * 20 / 2});
  // Over the middle of a line of 4 go 4 blocks each way.
  CHECK(bound(SipTopology::mesh_2d_no_wrap, 4, 1) == kAlpha + Time{4 * kBytes * 20});
  // A torus of 2 x 3: three links lead from one column to the other, which 9 blocks cross.
  CHECK(bound(SipTopology::torus_2d, 2, 3) == kAlpha + Time{3 * kBytes * 20});
}

}  // namespace
}  // namespace kernbench::test::collective_bound_test
