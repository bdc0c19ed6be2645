// The order in which a link serves transfers whose heads reach it at one time, and in which
// messages that land at one time are delivered.

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "sim_engine/components/fabric.h"

namespace kernbench::sim {

bool Fabric::precedes(const Visit& a, const Visit& b) const {
  if (a.arrival != b.arrival) return a.arrival < b.arrival;
  const Transfer& first = *a.transfer;
  const Transfer& second = *b.transfer;
  if (second.number != b.number()) return false;  // b was delivered meanwhile
  if (engine_.tie_seed()) {
    if (const auto one = draw_order(a), other = draw_order(b); one != other) return one < other;
  }
  const std::size_t common = std::min(a.hop, b.hop);
  for (std::size_t i = 1; i <= common + 1; ++i) {
    const Time one = i <= a.hop ? first.arrivals[a.hop - i].head : first.sent;
    const Time other = i <= b.hop ? second.arrivals[b.hop - i].head : second.sent;
    if (one != other) return one < other;
  }
  return sender_seen_at(a.hop, first) < sender_seen_at(b.hop, second);
}

// Some visits of a link that thousands of messages are going to reach are its guides, in the order
// of their arrival.  Returns the one that arrives next after `arrival`, if it is nearer than `at`,
// so that a walk back from `at` can go on there; else `at`, which becomes a guide.  No two guides
// of a link arrive at one time.
// REQUIRES: at.arrival >= arrival
Fabric::Visit& Fabric::find_nearer(Link& link, Visit& at, Time arrival) {
  std::vector<Visit*>& guides = guides_[&link];
  const auto next = std::ranges::upper_bound(guides, arrival, {}, &Visit::arrival);
  const bool has_nearer = next != guides.end() && (*next)->arrival <= at.arrival;
  if (has_nearer && (*next)->arrival < at.arrival) return **next;
  if (!has_nearer && at.arrival > arrival) {
    guides.insert(next, &at);
    at.is_guide = true;
  }
  return at;
}

void Fabric::forget_guide(const Link& link, const Visit& visit) {
  std::vector<Visit*>& guides = guides_.find(&link)->second;
  guides.erase(std::ranges::lower_bound(guides, visit.arrival, {}, &Visit::arrival));
}

// Returns the visit of a hop that the transfer has booked.
Fabric::Visit& Fabric::find_visit(Link& link, const Transfer& transfer, std::size_t hop) {
  const Time arrival = transfer.arrivals[hop].head;
  Visit* visit = link.last;
  for (int steps = 1; visit->number() != transfer.number || visit->hop != hop; ++steps) {
    if (steps % kLongWalk == 0) visit = &find_nearer(link, *visit, arrival);
    visit = visit->previous;
  }
  return *visit;
}

// Returns what orders transfers that reach a SIP at one time: from where they come as that SIP sees
// it, so that SIPs which stand alike serve alike, then which was sent first.
std::tuple<int, std::uint32_t, std::uint64_t> Fabric::sender_seen_at(std::size_t hop,
                                                                     const Transfer& transfer) {
  const Path& path = *transfer.path;
  return {path.sender_seen_at(hop), path.from_place, transfer.number};
}

void Fabric::deliver(Transfer& transfer) {
  if (transfer.path->from_sip == transfer.path->to_sip) return hand_over(transfer);
  if (const CauseLog* const causes = engine_.causes()) transfer.cause = causes->current();
  arrived_.push_back(&transfer);
  if (arrived_.size() == 1) engine_.schedule_last(Engine::call<&Fabric::deliver_arrived>(this));
}

void Fabric::deliver_arrived() {
  handed_over_.swap(arrived_);
  if (!engine_.tie_seed()) {
    std::ranges::sort(handed_over_, {}, [&](const Transfer* transfer) {
      const Path& path = *transfer->path;
      const int to = folding_.first_of(path.to_sip);
      return std::pair(to, sender_seen_at(path.hops.size(), *transfer));
    });
  }
  for (Transfer* const transfer : handed_over_) {
    if (CauseLog* const causes = engine_.causes()) causes->set_current(transfer->cause);
    hand_over(*transfer);
  }
  handed_over_.clear();
}

// Equal for all heads that come to a link over the same one at a time.
std::uint64_t Fabric::draw_order(const Visit& visit) const {
  const std::vector<LinkId>& hops = visit.transfer->path->hops;
  const std::uint64_t from = visit.hop == 0 ? links_.size() : hops[visit.hop - 1];
  std::uint64_t draw = *engine_.tie_seed();
  for (const std::uint64_t part :
       {from, std::uint64_t{hops[visit.hop]}, static_cast<std::uint64_t>(visit.arrival.count())}) {
    draw = (draw ^ part) * 0x9e3779b97f4a7c15;
    draw ^= draw >> 32;
  }
  return draw;
}

}  // namespace kernbench::sim
