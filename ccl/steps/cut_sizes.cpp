#include "ccl/steps/cut_sizes.h"

#include <limits>

#include "ccl/steps/step.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/routing.h"

namespace kernbench::ccl {

namespace {

// Messages may take this fraction of the TCM, so that users' kernels and other collectives on the
// PE find room beside them.
constexpr Bytes kShareOfScratch = 3;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// Messages that are no larger cost more for their number than for their bytes.
constexpr Bytes kSmall = 512;

// The bytes that a link carries in a time.
Bytes bytes_in(Time time, Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return kAny;
  const double seconds = 1e-12 * static_cast<double>(time.count());
  return static_cast<Bytes>(seconds * static_cast<double>(bandwidth.per_second));
}

// The bytes that a link carries while the news of a receive come to the sender and the message to
// the receiver, which takes two latencies and what PEs add.  A link carries no more than what lies
// before and behind it: the IO chiplet, the switch and HBM.
Bytes bytes_in_flight(const CutInput& input) {
  constexpr int kLatencies = 3;
  const Topology& topology = input.topology;
  const Bandwidth rate = std::min(
      {topology.system.sip_link.bandwidth, topology.sip.io_hop.bandwidth,
       topology.system.network_switch.core.bandwidth, find_hbm_rate(topology, input.lanes)});
  return bytes_in(kLatencies * topology.system.sip_link.latency, rate);
}

// The bytes of each message that is under way, if together they keep a link busy.
Bytes bytes_of_message_in_flight(const CutInput& input) {
  return bytes_in_flight(input) / kPostsAhead;
}

// A larger slice of a lane fills no link better.
constexpr Bytes kMostOfPipe = 8 << 10;

// The elements of a slice, where slices follow each other one by one from member to member: the
// smaller a slice, the sooner all members are busy.  But a link must not run dry, so as many slices
// are under way as receives are posted ahead, and have what it carries meanwhile.
std::int64_t elements_in_pipe(const Plan& plan, const CutInput& input) {
  constexpr Bytes kLeastOfTime = 8 << 10;   // in all moves of a time
  constexpr int kSlices = 1 + kPostsAhead;  // of little data: one more waits for news
  const LinkSpec& link = input.topology.system.sip_link;
  if (input.are_pes || !is_piped(plan) || link.bandwidth.is_unlimited()) return kAny;
  const Bytes size = size_of(input.dtype);
  const Bytes in_flight = bytes_of_message_in_flight(input);
  const Bytes two_slices = 2 * least_slice_without_slots(input.topology, plan);
  const Bytes least =
      std::max(std::min(kLeastOfTime / plan.width, two_slices * input.lanes), kLeastOfPipe);
  // Little data is cut into just as many slices as can be under way, since more of them only add
  // their fixed costs.
  const std::int64_t little =
      sim::ceil_divide(input.count, plan.chunk_count * kSlices * input.lanes);
  return std::clamp(little, least / size, std::max(in_flight / input.lanes, kMostOfPipe) / size);
}

// The elements of a slice, of which as many begin together as are large enough.  Several lanes are
// as good as several slices, and the links inside a SIP are too fast to gain by it.
std::int64_t elements_at_once(const Plan& plan, const CutInput& input) {
  if (input.are_pes || input.cubes > 1) return kAny;
  const Bytes message = input.count * size_of(input.dtype) * plan.most_chunks() / plan.chunk_count;
  const auto slices = std::clamp<std::int64_t>((message - 1) / input.least, 1, plan.slices_at_once);
  return std::max<std::int64_t>(sim::ceil_divide(input.count, slices), 1);
}

// True if each lane is to have one channel alone, so that it never waits for another channel's
// messages.  Where slices follow each other one by one, such a wait holds up the next slice, but a
// lane of a single slice has no next one.  And the lanes of a channel must be enough to fill its
// links.
bool has_channels_apart(const Plan& plan, const CutInput& input, std::int64_t most) {
  if (!is_piped(plan)) return true;
  const bool has_next = sim::ceil_divide(input.count, input.lanes) > most;
  const Bytes in_flight = bytes_of_message_in_flight(input);
  return has_next && input.lanes / plan.channels * kMostOfPipe >= in_flight;
}

// A third of a PE's scratch, or what is left to collectives.
std::int64_t find_scratch_elements(const Topology& topology, DType dtype) {
  const Bytes own = topology.communication.scratch;
  const Bytes third = topology.pe.tcm.capacity / kShareOfScratch;
  return (own > 0 ? std::min(own, third) : third) / size_of(dtype);
}

// What bounds a message besides the scratch: a slot, and that the next member can send it on soon.
std::int64_t most_on_the_way(const Plan& plan, const CutInput& input) {
  const Bytes size = size_of(input.dtype);
  const std::int64_t slot = input.slot > 0 ? std::max<std::int64_t>(input.slot / size, 1) : kAny;
  return std::min(slot, elements_in_pipe(plan, input));
}

// The most elements of a message, if `width` moves of a lane come at a time.
std::int64_t most_of_message(const Plan& plan, const CutInput& input, int width) {
  return std::min(most_on_the_way(plan, input),
                  most_message_elements(input.topology, input.dtype, plan, width, input.summands));
}

// The same of a lane that has all channels.
std::int64_t most_of_message(const Plan& plan, const CutInput& input) {
  const std::int64_t by_width = most_of_message(plan, input, plan.width);
  if (input.kept == 0) return by_width;
  const std::int64_t counted = most_message_elements(input.topology, input.dtype, plan, input.kept);
  // More than links carry in a step of all lanes begins later, and fills no link better.
  const std::int64_t in_flight = bytes_in_flight(input) / size_of(input.dtype) / input.lanes;
  const std::int64_t most =
      std::max(by_width, std::min({most_on_the_way(plan, input), counted, in_flight}));
  // A kernel seldom keeps all that is counted at once.  With more than twice as much scratch would
  // be full, or compute kernels would wait for a collective that waits for them.
  return std::min(most, 2 * counted);
}

// The same of a lane that has one channel alone.
std::int64_t most_of_channel(const Plan& plan, const CutInput& input) {
  const std::int64_t by_width = most_of_message(plan, input, plan.width / plan.channels);
  if (input.kept == 0) return by_width;
  const std::int64_t kept = sim::ceil_divide(input.kept, std::int64_t{plan.channels});
  return std::min(by_width, most_message_elements(input.topology, input.dtype, plan, kept));
}

// The most elements of a message for which a lane takes chunks whole.  A lane that has some of the
// chunks mostly has at most half of those of a time.
std::int64_t most_of_small(const Plan& plan, const CutInput& input, std::int64_t message) {
  const Bytes size = size_of(input.dtype);
  const std::int64_t slot = input.slot > 0 ? std::max<std::int64_t>(input.slot / size, 1) : kAny;
  return std::min({slot, plan.width > 1 ? 2 * message : message, kSmall / size});
}

}  // namespace

bool is_piped(const Plan& plan) {
  return plan.slices_at_once == 1 && plan.slice_interval == 1 && !plan.moves.empty();
}

Bandwidth find_hbm_rate(const Topology& topology, std::int64_t lanes) {
  const Bandwidth slice = sim::Routing::hbm_slice(topology).bandwidth;
  if (slice.is_unlimited()) return slice;
  const int pes = topology.pe_count();
  const auto in_cube = static_cast<int>(std::min<std::int64_t>(lanes, pes));
  const std::int64_t cubes = sim::ceil_divide(lanes, std::int64_t{pes});
  return {slice.per_second * sim::Routing::count_hbm_slices(topology, in_cube) * cubes};
}

// While the news are under way, the sender loads what it will send.
Bytes least_slice_without_slots(const Topology& topology, const Plan& plan) {
  const LinkSpec& link = topology.system.sip_link;
  const Topology::Pe& pe = topology.pe;
  const Time load =
      topology.cube.hbm.latency + 2 * (pe.dma_setup + pe.scheduler_dispatch + pe.mmu_latency);
  const Bytes bytes = bytes_in(std::max(link.latency - load, Time{0}), link.bandwidth);
  return bytes / (2 * std::max(plan.length - 1, 1));
}

CutSizes find_cut_sizes(const Plan& plan, const CutInput& input) {
  // A message carries at most most_chunks() of a slice's chunks.
  const auto of_slice = [&](std::int64_t message) {
    return message * plan.chunk_count / plan.most_chunks();
  };
  const std::int64_t message = most_of_message(plan, input);
  const std::int64_t most = std::min(of_slice(message), elements_at_once(plan, input));
  return {.most = most,
          .most_of_small = of_slice(most_of_small(plan, input, message)),
          .most_of_channel = of_slice(most_of_channel(plan, input)) / plan.channels,
          .channels = has_channels_apart(plan, input, most) ? plan.channels : 1,
          .chunk_count = plan.chunk_count,
          .share_ports = input.topology.system.topology == SipTopology::switched,
          .is_joined =
              std::ranges::any_of(plan.moves, [](const Move& move) { return !move.held.empty(); }),
          .on_one_cube = input.cubes > 1,
          .has_equal_chunks = input.has_equal_chunks};
}

std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   std::int64_t kept) {
  const std::int64_t elements = find_scratch_elements(topology, dtype);
  return std::max<std::int64_t>(elements * plan.most_chunks() / kept, 1);
}

std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   int width, std::size_t summands) {
  // Counts messages, summands and results of all times that have begun.
  const bool reduces = std::ranges::any_of(
      plan.moves, [](const Move& move) { return move.has_source && !move.from.empty(); });
  const Bytes loads = reduces ? (1 + kLoadsAhead) * static_cast<Bytes>(summands) : 0;
  // Steps that halve the data shrink fast: all receives ahead together need no more than one of
  // full size.
  const Bytes posted = plan.halves ? 1 : kPostsAhead;
  const Bytes values = plan.slices_at_once * (width * (1 + posted + loads) + 1);
  return std::max<std::int64_t>(find_scratch_elements(topology, dtype) / values, 1);
}

bool slots_suffice(const Plan& plan, std::int64_t slices, int channels, int depth) {
  return slices <= plan.slices_at_once &&
         sim::ceil_divide(slices * plan.burst(), std::int64_t{channels}) <= depth;
}

}  // namespace kernbench::ccl
