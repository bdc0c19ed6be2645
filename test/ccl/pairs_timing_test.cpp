// Times of all_to_all, gather and scatter where nothing costs time but links (TIMING.md 3.2), and
// of the slots that small messages need for them.

#include <algorithm>
#include <catch2/catch.hpp>

#include "ccl/core/config.h"
#include "ccl/steps/eager_slots.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/ccl/group_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::pairs_timing_test {
namespace {

constexpr Time kAlpha{500'000};
constexpr Time kByte{20};
constexpr Bytes kLargestEager = 1 << 10;

enum class Pattern { all_to_all, gather, scatter };

// Times a collective of blocks of `bytes` from when all members have their tensors to the last
// one's end.
Time time_of(const Topology& topology, Pattern pattern, Bytes bytes, const ccl::Config& config) {
  std::vector<int> ranks;
  for (int i = 0; i < topology.system.sip_count; ++i) ranks.push_back(i);
  const std::int64_t count = bytes / size_of(DType::f32);
  Time begin{0};
  Time end{0};
  run_group(topology, ranks,
            [&](const Member& m) {
              const auto make = [&](std::int64_t n) {
                return m.torch.zeros({n}, {.dp = DPPolicy::on_one_pe()});
              };
              const Tensor block = make(count);
              const Tensor blocks = make(m.size() * count);
              const Tensor others = make(m.size() * count);
              std::vector<Tensor> parts;
              for (int i = 0; i < m.size(); ++i)
                parts.push_back(blocks.narrow(0, i * count, count));
              if (m.rank != 0) parts.clear();
              begin = m.torch.engine().now();
              auto& dist = m.torch.distributed;
              if (pattern == Pattern::all_to_all) dist.all_to_all_single(others, blocks);
              if (pattern == Pattern::gather) dist.gather(block, parts);
              if (pattern == Pattern::scatter) dist.scatter(block, parts);
              m.torch.ahbm.synchronize();
              end = std::max(end, m.torch.engine().now());
              return std::string();
            },
            {.ccl = config});
  return end - begin;
}

Time time_of(const Topology& topology, Pattern pattern, Bytes bytes) {
  return time_of(topology, pattern, bytes, ccl::Config());
}

Topology switch_of(int count) {
  Topology topology = joined_topology(SipTopology::switched, count);
  topology.system.sip_link.latency = kAlpha / 2;
  return topology;
}

TEST_CASE("small blocks are all under way at once", "[ccl][timing][pairs]") {
  for (const Bytes bytes : {Bytes{4}, Bytes{64}, kLargestEager}) {
    for (const int p : {2, 3, 8}) {
      CAPTURE(bytes, p);
      const Topology mesh = joined_topology(SipTopology::full_mesh, p);
      for (const auto pattern : {Pattern::all_to_all, Pattern::gather, Pattern::scatter}) {
        CHECK(time_of(mesh, pattern, bytes) == kAlpha + bytes * kByte);
        CHECK(time_of(switch_of(p), pattern, bytes) == kAlpha + (p - 1) * bytes * kByte);
      }
      // On a ring the farthest block has P/2 links to pass, which carry others before it.
      const Topology ring = link_topology(SipTopology::ring_1d, p);
      const Time way = p / 2 * kAlpha;
      const int most_on_a_link = (p / 2) * (p / 2 + 1) / 2;
      for (const auto pattern : {Pattern::all_to_all, Pattern::gather, Pattern::scatter}) {
        const Time took = time_of(ring, pattern, bytes);
        CHECK(took >= way + bytes * kByte);
        CHECK(took <= way + most_on_a_link * bytes * kByte);
      }
    }
  }
}

TEST_CASE("larger blocks wait for the news of their receives once", "[ccl][timing][pairs]") {
  const Topology mesh = joined_topology(SipTopology::full_mesh, 8);
  const Bytes bytes = 4 * kLargestEager;  // in two messages at most
  const Time news = kAlpha + 16 * kByte;
  for (const auto pattern : {Pattern::all_to_all, Pattern::gather, Pattern::scatter}) {
    CHECK(time_of(mesh, pattern, bytes) == news + kAlpha + bytes * kByte);
    // `eager` of ccl.yaml moves the limit.
    const auto larger = ccl::Config::parse("defaults: {eager: 4 KiB}");
    CHECK(time_of(mesh, pattern, bytes, larger) == kAlpha + bytes * kByte);
    const auto none = ccl::Config::parse("defaults: {eager: 0 B}");
    CHECK(time_of(mesh, pattern, 64, none) == news + kAlpha + 64 * kByte);
  }
}

TEST_CASE("a PE keeps slots for 64 queues, and gives them to the next ones when they go",
          "[ccl][pairs]") {
  Topology topology = link_topology(SipTopology::ring_1d, 2);
  topology.cube.sram.capacity = 64 * 2 * kLargestEager * 8;
  RuntimeContext torch(topology);
  sim::Machine& machine = simulation_of(torch).machine();
  ccl::EagerSlots slots(machine, kLargestEager);
  for (int i = 0; i < 64; ++i) CHECK(slots.take({0, 0, 0}));
  CHECK_FALSE(slots.take({0, 0, 0}));
  CHECK(slots.take({1, 0, 0}));
  slots.give_back({0, 0, 0});
  CHECK(slots.take({0, 0, 0}));
}

TEST_CASE("slots of small messages take an eighth of an SRAM at most, and none where it is full",
          "[ccl][pairs]") {
  Topology topology = link_topology(SipTopology::ring_1d, 2);
  topology.cube.sram.capacity = 64 << 10;
  RuntimeContext torch(topology);
  sim::Machine& machine = simulation_of(torch).machine();
  REQUIRE(machine.reserve_for_queues({0, 0, 0}, 60 << 10));
  ccl::EagerSlots slots(machine, kLargestEager);
  CHECK_FALSE(slots.take({0, 0, 0}));
  for (int i = 0; i < 4; ++i) CHECK(slots.take({1, 0, 0}));
  CHECK_FALSE(slots.take({1, 0, 0}));
}

}  // namespace
}  // namespace kernbench::test::pairs_timing_test
