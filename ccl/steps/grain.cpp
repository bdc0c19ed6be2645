#include "ccl/steps/grain.h"

#include <limits>

#include "ccl/steps/step.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

namespace {

// Messages may take this fraction of the TCM, so that users' kernels and other collectives on the
// PE find room beside them.
constexpr Bytes kShareOfScratch = 3;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// Messages that are no larger cost more for their number than for their bytes.
constexpr Bytes kDealt = 512;

// The bytes that a link carries in a time.
Bytes bytes_in(Time time, Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return kAny;
  const double seconds = 1e-12 * static_cast<double>(time.count());
  return static_cast<Bytes>(seconds * static_cast<double>(bandwidth.per_second));
}

// The bytes that a link carries while the news of a receive come to the sender and the message to
// the receiver, which takes two latencies and what PEs add.
Bytes bytes_in_flight(const Topology& topology) {
  constexpr int kLatencies = 3;
  const LinkSpec& link = topology.system.sip_link;
  return bytes_in(kLatencies * link.latency, link.bandwidth);
}

// The same of each of the parts that are under way.
Bytes bytes_in_part(const Topology& topology) {
  return bytes_in_flight(topology) / kPostsAhead;
}

// A part of a lane has no more where that fills no link better.
constexpr Bytes kMostOfPipe = 8 << 10;

// Where parts follow each other one by one from member to member, the less a part has, the sooner
// all members are busy.  But a link must not run dry: as many parts are under way as receives are
// posted ahead, and have what it carries meanwhile.
std::int64_t elements_in_pipe(const Plan& plan, const GrainInput& input) {
  constexpr Bytes kLeastOfTime = 8 << 10;  // in all moves of a time
  constexpr int kParts = 1 + kPostsAhead;  // of little data: one more waits for news
  const LinkSpec& link = input.topology.system.sip_link;
  if (input.are_pes || !is_piped(plan) || link.bandwidth.is_unlimited()) return kAny;
  const Bytes size = size_of(input.dtype);
  const Bytes in_flight = bytes_in_part(input.topology);
  const Bytes two_parts = 2 * least_part_without_slots(input.topology, plan);
  const Bytes least =
      std::max(std::min(kLeastOfTime / plan.width, two_parts * input.lanes), kLeastOfPipe);
  // Little data is cut into just as many parts as can be under way, since more parts only add their
  // fixed costs.
  const std::int64_t of_part = sim::ceil_divide(input.count, plan.units * kParts * input.lanes);
  return std::clamp(of_part, least / size, std::max(in_flight / input.lanes, kMostOfPipe) / size);
}

// The elements of a fragment, of which as many begin together as are worth it.  Several lanes are
// as good as several parts, and the links inside a SIP are too fast.
std::int64_t elements_in_window(const Plan& plan, const GrainInput& input) {
  if (input.are_pes || input.cubes > 1) return kAny;
  const Bytes chunk = input.count * size_of(input.dtype) * plan.largest_chunk() / plan.units;
  const auto parts = std::clamp<std::int64_t>((chunk - 1) / input.least_part, 1, plan.window);
  return std::max<std::int64_t>(sim::ceil_divide(input.count, parts), 1);
}

// A lane of one colour never waits for another colour's messages.  Where parts follow each other
// one by one, such a wait holds up the next part, but a lane of a single part has no next one.  And
// the lanes of a colour must be enough to fill its links.
bool pays_to_deal(const Plan& plan, const GrainInput& input, std::int64_t most) {
  if (!is_piped(plan)) return true;
  const bool has_next = sim::ceil_divide(input.count, input.lanes) > most;
  return has_next && input.lanes / plan.colours * kMostOfPipe >= bytes_in_part(input.topology);
}

// A third of a PE's scratch, or what is left to collectives.
std::int64_t find_scratch_elements(const Topology& topology, DType dtype) {
  const Bytes own = topology.communication.scratch;
  const Bytes third = topology.pe.tcm.capacity / kShareOfScratch;
  return (own > 0 ? std::min(own, third) : third) / size_of(dtype);
}

}  // namespace

bool is_piped(const Plan& plan) {
  return plan.window == 1 && plan.interval == 1 && !plan.moves.empty();
}

// While the news are under way, the sender loads what it will send.
Bytes least_part_without_slots(const Topology& topology, const Plan& plan) {
  const LinkSpec& link = topology.system.sip_link;
  const Topology::Pe& pe = topology.pe;
  const Time load =
      topology.cube.hbm.latency + 2 * (pe.dma_setup + pe.scheduler_dispatch + pe.mmu_latency);
  const Bytes bytes = bytes_in(std::max(link.latency - load, Time{0}), link.bandwidth);
  return bytes / (2 * std::max(plan.length - 1, 1));
}

Grain find_grain(const Plan& plan, const GrainInput& input) {
  const Bytes size = size_of(input.dtype);
  const std::int64_t slot = input.slot > 0 ? std::max<std::int64_t>(input.slot / size, 1) : kAny;
  const std::int64_t piped = elements_in_pipe(plan, input);
  const auto most_of = [&](int width) {
    return std::min(
        {slot, piped,
         most_message_elements(input.topology, input.dtype, plan, width, input.summands)});
  };
  std::int64_t message = most_of(plan.width);
  if (input.kept > 0) {
    // More than links carry in a step of all lanes begins later, and fills no link better.
    const std::int64_t in_flight = bytes_in_flight(input.topology) / size / input.lanes;
    const std::int64_t counted =
        most_message_elements(input.topology, input.dtype, plan, input.kept);
    message = std::max(message, std::min({slot, piped, counted, in_flight}));
    // A kernel seldom keeps all that is counted at once.  With more than twice as much scratch
    // would be full, or compute kernels would wait for a collective that waits for them.
    message = std::min(message, 2 * counted);
  }
  std::int64_t of_colour = most_of(plan.width / plan.colours);
  if (input.kept > 0) {
    const std::int64_t kept = sim::ceil_divide(input.kept, std::int64_t{plan.colours});
    of_colour = std::min(of_colour, most_message_elements(input.topology, input.dtype, plan, kept));
  }
  // A lane that has a share of the chunks mostly has at most half of those of a time.
  std::int64_t dealt = std::min(slot, plan.width > 1 ? 2 * message : message);
  dealt = std::min(dealt, kDealt / size);
  const auto of_fragment = [&](std::int64_t elements) {
    return elements * plan.units / plan.largest_chunk();
  };
  const std::int64_t most = std::min(of_fragment(message), elements_in_window(plan, input));
  return {.most = most,
          .most_dealt = of_fragment(dealt),
          .most_of_colour = of_fragment(of_colour) / plan.colours,
          .colours = pays_to_deal(plan, input, most) ? plan.colours : 1,
          .units = plan.units,
          .is_joined =
              std::ranges::any_of(plan.moves, [](const Move& move) { return !move.parts.empty(); }),
          .on_one_cube = input.cubes > 1};
}

std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   std::int64_t kept) {
  const std::int64_t elements = find_scratch_elements(topology, dtype);
  return std::max<std::int64_t>(elements * plan.largest_chunk() / kept, 1);
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
  const Bytes values = plan.window * (width * (1 + posted + loads) + 1);
  return std::max<std::int64_t>(find_scratch_elements(topology, dtype) / values, 1);
}

}  // namespace kernbench::ccl
