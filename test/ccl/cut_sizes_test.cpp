// How finely the blocks of a collective are cut.

#include "ccl/steps/cut_sizes.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/support/small_topology.h"

namespace kernbench::test::cut_sizes_test {
namespace {

using distributed::CollectiveKind;

// One message of all chunks, to the next member.
ccl::Plan plan_of_one_move() {
  ccl::Plan plan(CollectiveKind::all_gather, 0);
  ccl::Move& move = plan.moves.emplace_back();
  move.has_source = true;
  move.to = {1};
  return plan;
}

// Half of what a link of 1 GB/s carries in three latencies is in flight in each message.  A lane
// gives a channel slices of 8 KiB, so 8 lanes fill links with up to 64 KiB in flight.
TEST_CASE("lanes have one channel alone where those of a channel fill its links", "[ccl][cut]") {
  ccl::Plan plan = plan_of_one_move();
  plan.slices_at_once = plan.slice_interval = 1;  // piped
  plan.channels = 2;
  Topology topology = link_topology(SipTopology::ring_1d, 4);
  const auto channels = [&](std::int64_t in_flight, std::int64_t lanes) {
    topology.system.sip_link = {Bandwidth{1'000'000'000}, Time{1'000} * (2 * in_flight / 3)};
    return find_cut_sizes(plan, {.topology = topology, .count = 1 << 24, .lanes = lanes}).channels;
  };
  for (const std::int64_t lanes : {8, 16, 64}) {
    CAPTURE(lanes);
    const std::int64_t filled = lanes / 2 * (8 << 10);
    for (const std::int64_t in_flight : {filled / 4, filled / 2, filled - 3}) {
      CHECK(channels(in_flight, lanes) == 2);
    }
    for (const std::int64_t in_flight : {filled + 3, 2 * filled}) {
      CHECK(channels(in_flight, lanes) == 1);
    }
  }
}

// A lane with some of the chunks has at most half of the messages of a time, so that its messages
// may be twice as large, if a member has several at a time.
TEST_CASE("a lane of whole chunks has messages of twice the size, up to 512 B", "[ccl][cut]") {
  Topology topology = link_topology(SipTopology::ring_1d, 4);
  ccl::Plan plan = plan_of_one_move();
  for (const int width : {1, 2, 4}) {
    plan.width = width;
    for (const Bytes scratch : {64, 256, 512, 1024, 4096, 65536}) {
      topology.communication.scratch = scratch;
      const std::int64_t message =
          most_message_elements(topology, DType::f32, plan, width, std::size_t{1});
      CAPTURE(width, scratch, message);
      CHECK(find_cut_sizes(plan, {.topology = topology, .count = 1 << 20}).most_of_small ==
            std::min<std::int64_t>(width == 1 ? message : 2 * message, 128));
    }
  }
}

}  // namespace
}  // namespace kernbench::test::cut_sizes_test
