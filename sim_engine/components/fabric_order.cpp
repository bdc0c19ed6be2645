// The order in which a link serves transfers whose heads reach it at one time.

#include <algorithm>
#include <cstddef>

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
  return a.number() < b.number();
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
