#include "ccl/algorithms/packed_ways.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "ccl/algorithms/pairs.h"
#include "ccl/core/ways.h"

namespace kernbench::ccl {

namespace {

// Times at which links are free, if a message takes each of its links for one time.
class Timetable {
 public:
  explicit Timetable(const Ways& ways) : ways_(ways) {}

  // The first time at which the route's messages, each a time after the one before, pass nobody
  // else's.
  int take(const Route& route) {
    int time = 0;
    while (!is_free(route, time)) ++time;
    visit(route, time, [&](int link, int at) { taken_.emplace(link, at); });
    return time;
  }

 private:
  template <class Visit>
  void visit(const Route& route, int time, Visit visit) const {
    for (std::size_t i = 1; i < route.stops.size(); ++i) {
      for (const int link : ways_.links(route.stops[i - 1], route.stops[i])) {
        visit(link, time + static_cast<int>(i) - 1);
      }
    }
  }
  bool is_free(const Route& route, int time) const {
    bool is_free = true;
    visit(route, time, [&](int link, int at) { is_free &= !taken_.contains({link, at}); });
    return is_free;
  }

  const Ways& ways_;
  std::set<std::pair<int, int>> taken_;  // links and times
};

struct Sending {
  const Route* route;
  ChunkRange chunks;
  int time = 0;
  int order = 0;  // among those of one time
};

// The longest first, since they fit nowhere later.  Where blocks have one root, a member sends what
// it has at once, in the order of the timetable: it would wait too long for its times.
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
