#include "ccl/algorithms/packed_ways.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "ccl/algorithms/pairs.h"
#include "ccl/core/ways.h"

namespace kernbench::ccl {

namespace {

// Times at which links are free, if a message takes each of its links for one time.
class Timetable {
 public:
  explicit Timetable(const Ways& ways)
      : ways_(ways), taken_(static_cast<std::size_t>(ways.link_count())) {}

  // The first time at which the route's messages, each a time after the one before, pass nobody
  // else's.
  int take(const Route& route) {
    std::size_t time = 0;
    while (!is_free(route, time)) ++time;
    for (std::size_t i = 1; i < route.stops.size(); ++i) {
      for (const int link : links(route, i)) {
        std::vector<bool>& taken = taken_[static_cast<std::size_t>(link)];
        taken.resize(std::max(taken.size(), time + i));
        taken[time + i - 1] = true;
      }
    }
    return static_cast<int>(time);
  }

 private:
  std::span<const int> links(const Route& route, std::size_t i) const {
    return ways_.links(route.stops[i - 1], route.stops[i]);
  }
  bool is_free(const Route& route, std::size_t time) const {
    for (std::size_t i = 1; i < route.stops.size(); ++i) {
      for (const int link : links(route, i)) {
        const std::vector<bool>& taken = taken_[static_cast<std::size_t>(link)];
        if (time + i - 1 < taken.size() && taken[time + i - 1]) return false;
      }
    }
    return true;
  }

  const Ways& ways_;
  std::vector<std::vector<bool>> taken_;  // by link and time
};

struct Sending {
  const Route* route;
  ChunkRange chunks;
  int time = 0;
  int order = 0;  // among those of one time
};

// The longest routes come first, since they fit nowhere later.  If blocks have one root, a member
// sends all that it has at once, in the order of the timetable: to wait for its times takes longer.
std::vector<Sending> list_sendings(const Ways& ways, const Packing& packing, bool at_once) {
  const auto shares = packing.routes.size() / static_cast<std::size_t>(packing.chunk_count);
  std::vector<Sending> sendings;
  for (std::size_t i = 0; i < packing.routes.size(); ++i) {
    const Route& route = packing.routes[i];
    const int chunk = static_cast<int>(i / shares);
    sendings.push_back({&route, {chunk, chunk + 1, route.stops.front(), route.stops.back()}});
  }
  const auto length = [&](const Sending& sending) {
    std::size_t links = 0;
    const std::vector<int>& stops = sending.route->stops;
    for (std::size_t i = 1; i < stops.size(); ++i)
      links += ways.links(stops[i - 1], stops[i]).size();
    return links;
  };
  std::ranges::stable_sort(sendings, std::ranges::greater{}, length);
  Timetable timetable(ways);
  for (Sending& sending : sendings) {
    (at_once ? sending.order : sending.time) = timetable.take(*sending.route);
  }
  return sendings;
}

void add_moves(const Sending& sending, int self, Plan& plan) {
  const std::vector<int>& stops = sending.route->stops;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (stops[i] != self) continue;
    Move& move = plan.moves.emplace_back();
    move.time = sending.time + static_cast<int>(i);
    move.chunks = sending.chunks;
    move.stage = sending.order;
    move.has_source = i == 0;
    if (i > 0) {
      move.from = {stops[i - 1]};
      ++move.stage;  // all send before they wait for what is sent to them
    }
    move.stores = i + 1 == stops.size();
    if (!move.stores) move.to = {stops[i + 1]};
  }
}

}  // namespace

void plan_packed_ways(const PlanRequest& request, Plan& plan) {
  const Ways& ways = *request.shape.ways;
  if (!ways.serves(request.kind)) return plan_pairs(request, plan);
  const Packing& packing = ways.packing(request.kind, request.root);
  plan.chunk_count = packing.chunk_count;
  const bool at_once = ways.has_flow(request.kind);
  plan.width = at_once ? request.shape.size : 4;
  if (at_once) plan.slices_at_once = 1;
  const bool keeps_own = request.kind == Plan::Kind::all_to_all || request.self == request.root;
  if (keeps_own) {
    Move& own = plan.moves.emplace_back();
    own.chunks = {0, packing.chunk_count, request.self, request.self};
    own.has_source = own.stores = true;
  }
  for (const Sending& sending : list_sendings(ways, packing, at_once)) {
    plan.length =
        std::max(plan.length, sending.time + static_cast<int>(sending.route->stops.size()));
    add_moves(sending, request.self, plan);
  }
}

std::string_view misfit_of_packed_ways(const GroupShape& shape) {
  return shape.ways == nullptr ? "it needs 2 to 64 SIPs of a grid, and neighbours if more than 8"
                               : "";
}

}  // namespace kernbench::ccl
