#include "ccl/core/packing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "ccl/core/flow_graph.h"

namespace kernbench::ccl {

namespace {

using Kind = distributed::CollectiveKind;

// A demand says what has to travel: the sums or values of a block, or a block from one member to
// another.
struct Demand {
  int root = -1;  // of trees; -1: any
  bool sums = false;
  bool spreads = false;
  int giver = -1;
  int taker = -1;

  bool is_way() const { return giver >= 0; }
};

std::vector<Demand> list_demands(Kind kind, int size, int root) {
  std::vector<Demand> demands;
  for (int member = 0; member < size; ++member) {
    switch (kind) {
      case Kind::all_reduce:
        if (member == 0) demands.push_back({.sums = true, .spreads = true});
        break;
      case Kind::broadcast:
        if (member == root) demands.push_back({.root = root, .spreads = true});
        break;
      case Kind::reduce:
        if (member == root) demands.push_back({.root = root, .sums = true});
        break;
      case Kind::all_gather:
        demands.push_back({.root = member, .spreads = true});
        break;
      case Kind::reduce_scatter:
        demands.push_back({.root = member, .sums = true});
        break;
      default:
        for (int taker = 0; taker < size; ++taker) {
          const bool is_sent = traits_of(kind).is_sent(root, member, taker);
          if (is_sent && taker != member) demands.push_back({.giver = member, .taker = taker});
        }
    }
  }
  return demands;
}

// The costs of messages, also in the opposite direction.
struct Costs {
  MessageCosts there;
  MessageCosts back = there.reversed();
};

struct PricedRoute {
  Route route;
  double up_cost = 0;
  double down_cost = 0;  // or that of a way

  double cost() const { return up_cost + down_cost; }
};

PricedRoute find_trees(const Demand& demand, int root, const Costs& costs) {
  PricedRoute found;
  found.route.root = root;
  if (demand.sums) {
    found.route.up = least_tree(costs.back, root);
    found.up_cost = cost_of_tree(costs.back, found.route.up);
  }
  if (demand.spreads) {
    found.route.down = least_tree(costs.there, root);
    found.down_cost = cost_of_tree(costs.there, found.route.down);
  }
  return found;
}

PricedRoute find_way(const Demand& demand, const Costs& costs) {
  PricedRoute found;
  found.route.stops = least_way(costs.there, demand.giver, demand.taker);
  for (std::size_t i = 1; i < found.route.stops.size(); ++i) {
    found.down_cost += costs.there.at(found.route.stops[i - 1], found.route.stops[i]);
  }
  return found;
}

// Returns the cheapest route of each root that the demand allows.
std::vector<PricedRoute> list_routes(const Demand& demand, const Costs& costs) {
  if (demand.is_way()) return {find_way(demand, costs)};
  if (demand.root >= 0) return {find_trees(demand, demand.root, costs)};
  std::vector<PricedRoute> routes;
  for (int root = 0; root < costs.there.size(); ++root) {
    routes.push_back(find_trees(demand, root, costs));
  }
  return routes;
}

const PricedRoute& cheapest(const std::vector<PricedRoute>& routes) {
  return *std::ranges::min_element(routes, {}, &PricedRoute::cost);
}

// Shares of blocks on links.
class Loads {
 public:
  explicit Loads(const Ways& ways)
      : ways_(ways), loads_(static_cast<std::size_t>(ways.link_count()), 0) {}

  const std::vector<double>& by_link() const { return loads_; }
  double most() const { return loads_.empty() ? 0 : *std::ranges::max_element(loads_); }

  void add(const Route& route, double share) {
    for (int member = 0; member < ways_.size(); ++member) {
      const auto index = static_cast<std::size_t>(member);
      if (!route.up.empty() && route.up[index] >= 0) add(member, route.up[index], share);
      if (!route.down.empty() && route.down[index] >= 0) add(route.down[index], member, share);
    }
    for (std::size_t i = 1; i < route.stops.size(); ++i) {
      add(route.stops[i - 1], route.stops[i], share);
    }
  }

 private:
  void add(int from, int to, double share) {
    for (const int link : ways_.links(from, to)) loads_[static_cast<std::size_t>(link)] += share;
  }

  const Ways& ways_;
  std::vector<double> loads_;
};

// Returns what one more share on a link adds to the sum of a power of all loads.
std::vector<double> prices_of_next(const Loads& loads, int power) {
  const auto raised = [&](double load) {
    double product = 1;
    for (int i = 0; i < power; ++i) product *= load;
    return product;
  };
  std::vector<double> prices;
  for (const double load : loads.by_link()) prices.push_back(raised(load + 1) - raised(load));
  return prices;
}

// The higher the power, the more the busiest links count against the sum of all loads.
Packing pack_in_chunks(const Ways& ways, const std::vector<Demand>& demands, int chunks,
                       int power) {
  constexpr int kRounds = 4;
  Packing best{chunks, {}, 0};
  std::vector<Route> routes(demands.size() * static_cast<std::size_t>(chunks));
  Loads loads(ways);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < routes.size(); ++i) {
      // A route is taken out before it is chosen anew, so that it does not avoid its own load.
      loads.add(routes[i], -1);
      const Costs costs{ways.costs(prices_of_next(loads, power))};
      routes[i] = cheapest(list_routes(demands[i % demands.size()], costs)).route;
      loads.add(routes[i], 1);
    }
    // A further round seldom helps once one has not.
    if (!best.routes.empty() && loads.most() / chunks >= best.load) break;
    best.routes = routes;
    best.load = loads.most() / chunks;
  }
  return best;
}

// The least that a message to each member but one costs, in sum.
double cheapest_messages(const MessageCosts& costs, int but) {
  double sum = 0;
  for (int to = 0; to < costs.size(); ++to) {
    if (to == but) continue;
    double cheapest = std::numeric_limits<double>::max();
    for (int from = 0; from < costs.size(); ++from) {
      if (from != to) cheapest = std::min(cheapest, costs.at(from, to));
    }
    sum += cheapest;
  }
  return sum;
}

// An element's messages up to the first member that has its sum bring all summands there: a tree.
// Each other member gets the sum, or the rest of it, by a later message.  The same holds for
// the messages in reverse.  And each member's summand gets to all others, and the other way round.
double least_of_all_reduce(const Costs& costs, const std::vector<PricedRoute>& by_root) {
  constexpr double kMost = std::numeric_limits<double>::max();
  double least = 0;
  double first_up = kMost;
  double first_down = kMost;
  for (const PricedRoute& trees : by_root) {
    const int root = trees.route.root;
    first_up = std::min(first_up, trees.up_cost + cheapest_messages(costs.there, root));
    first_down = std::min(first_down, trees.down_cost + cheapest_messages(costs.back, root));
    least = std::max({least, trees.up_cost, trees.down_cost});
  }
  return std::max({least, first_up, first_down});
}

// Where links have prices: the cheapest routes, and what the busiest link carries at least.
struct AtPrices {
  std::vector<Route> routes;
  double least_load = 0;
};

AtPrices route_at(const Ways& ways, Kind kind, const std::vector<Demand>& demands,
                  const std::vector<double>& prices) {
  const Costs costs{ways.costs(prices)};
  AtPrices found;
  double least = 0;
  for (const Demand& demand : demands) {
    const std::vector<PricedRoute> routes = list_routes(demand, costs);
    const PricedRoute& best = cheapest(routes);
    least += kind == Kind::all_reduce ? least_of_all_reduce(costs, routes) : best.cost();
    found.routes.push_back(best.route);
  }
  found.least_load = least / std::accumulate(prices.begin(), prices.end(), 0.0);
  return found;
}

// Returns what the busiest link carries at least, since all of it has to pass the links out of each
// member, or into it, or all links.
double least_load_of_cuts(const Ways& ways, Kind kind, const std::vector<Demand>& demands) {
  const auto count = static_cast<std::size_t>(ways.link_count());
  double least = route_at(ways, kind, demands, std::vector<double>(count, 1)).least_load;
  for (int member = 0; member < ways.size(); ++member) {
    std::vector<double> out(count, 0);
    std::vector<double> in(count, 0);
    for (int other = 0; other < ways.size(); ++other) {
      if (other == member) continue;
      out[static_cast<std::size_t>(ways.links(member, other).front())] = 1;
      in[static_cast<std::size_t>(ways.links(other, member).back())] = 1;
    }
    least = std::max({least, route_at(ways, kind, demands, out).least_load,
                      route_at(ways, kind, demands, in).least_load});
  }
  return least;
}

// Leaves stops out where the message from the one before to the one behind goes by them anyway.
std::vector<int> list_stops(const Ways& ways, const std::vector<int>& members) {
  std::vector<int> stops = {members.front()};
  std::vector<int> passed;  // since the last stop
  for (std::size_t i = 1; i < members.size(); ++i) {
    const std::span<const int> link = ways.links(members[i - 1], members[i]);
    passed.insert(passed.end(), link.begin(), link.end());
    if (std::ranges::equal(passed, ways.links(stops.back(), members[i]))) continue;
    stops.push_back(members[i - 1]);
    passed.assign(link.begin(), link.end());
  }
  stops.push_back(members.back());
  return stops;
}

constexpr double kBetter = 0.99;  // more chunks are more messages

// The routes between a root and all others.
Packing pack_flow(const Ways& ways, Kind kind, int root) {
  SpreadWays best;
  double least = 0;
  for (const int chunks : {1, 2, 3, 4, 5, 6}) {
    SpreadWays spread = spread_ways(*ways.joins(), root, chunks);
    least = std::max(least, spread.least_load);
    if (chunks == 1 || spread.load() < kBetter * best.load()) best = std::move(spread);
    if (kBetter * best.load() <= least) break;
  }
  Packing packing{best.chunk_count, {}, best.load(), least};
  for (std::vector<int>& way : best.ways) {
    if (kind == Kind::gather) std::ranges::reverse(way);
    packing.routes.emplace_back().stops = list_stops(ways, way);
  }
  return packing;
}

}  // namespace

Packing pack(const Ways& ways, Kind kind, int root) {
  if (ways.has_flow(kind)) return pack_flow(ways, kind, root);
  const std::vector<Demand> demands = list_demands(kind, ways.size(), root);
  const double least = least_load_of_cuts(ways, kind, demands);
  Packing best;
  for (const int chunks : {1, 2, 3, 4, 5, 6, 8}) {
    // Several demands spread over links by themselves, and the search takes a time that grows with
    // chunks and demands.
    if (chunks > 6 && demands.size() > 1) break;
    for (const int power : {3, 6}) {
      if (!best.routes.empty() && kBetter * best.load <= least) return best;
      Packing packing = pack_in_chunks(ways, demands, chunks, power);
      if (best.routes.empty() || packing.load < kBetter * best.load) best = std::move(packing);
    }
  }
  return best;
}

double find_least_load(const Ways& ways, Kind kind, int root, const Packing& packing) {
  constexpr int kRounds = 100;
  // Any prices give a true bound.  The busiest links must be the dearest for it to be a high one,
  // so prices grow exponentially with the load.
  constexpr double kSteepness = 60;
  constexpr double kRoundsOfPacking = 10;
  if (ways.size() < 2) return 0;
  if (packing.least_load > 0) return packing.least_load;
  const std::vector<Demand> demands = list_demands(kind, ways.size(), root);
  Loads loads(ways);
  // The packing is a good first guess of the loads, and counts as much as some rounds of the
  // search.
  for (const Route& route : packing.routes)
    loads.add(route, kRoundsOfPacking / packing.chunk_count);
  std::vector<double> busiest;
  for (const double load : loads.by_link()) busiest.push_back(load > 0.99 * loads.most() ? 1 : 0);
  double least = std::max(least_load_of_cuts(ways, kind, demands),
                          route_at(ways, kind, demands, busiest).least_load);
  for (int round = 0; round < kRounds && least < 0.99 * packing.load; ++round) {
    const double most = loads.most();
    std::vector<double> prices;
    for (const double load : loads.by_link()) {
      prices.push_back(std::exp(kSteepness * (load / most - 1)));
    }
    const AtPrices found = route_at(ways, kind, demands, prices);
    least = std::max(least, found.least_load);
    for (const Route& route : found.routes) loads.add(route, 1);
  }
  return least;
}

}  // namespace kernbench::ccl
