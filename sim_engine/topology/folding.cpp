#include "sim_engine/topology/folding.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "sim_engine/topology/location.h"

namespace kernbench::sim {

namespace {

// The periods along the dimensions of a grid: 1 where all coordinates do alike, the size where none
// do.  nullopt: the grid has no such period.
using Periods = std::array<int, 3>;
std::optional<Periods> find_periods(const Grid& grid, int period) {
  Periods periods = {grid.w, grid.h, grid.d};
  if (period <= Folding::kLargestPeriod) {
    const auto divides = [&](int size) { return size % period == 0; };
    if (std::ranges::none_of(periods, divides)) return std::nullopt;
    for (int& of : periods) of = divides(of) ? period : of;
    return periods;
  }
  // SIPs of consecutive numbers fill a part of a row, or rows.
  int rest = period;
  for (int& of : periods) {
    if (rest % of == 0) {
      rest /= of;
    } else if (of % rest == 0) {
      of = std::exchange(rest, 1);
    } else {
      return std::nullopt;
    }
  }
  return rest == 1 ? std::optional(periods) : std::nullopt;
}

int coordinate_of(const Grid& grid, int node, int dimension) {
  return dimension == 0 ? grid.x_of(node) : dimension == 1 ? grid.y_of(node) : grid.z_of(node);
}

int find_first(const SipNetwork& network, int sip, int period) {
  if (network.has_nodes()) return sip % network.sips_in_node(network.level_count());
  const Grid& grid = network.grid();
  // A switch has no grid that a period would have to fit.
  const Periods periods = find_periods(grid, period).value_or(Periods{grid.w, grid.h, grid.d});
  return grid.index_of(grid.x_of(sip) % periods[0], grid.y_of(sip) % periods[1],
                       grid.z_of(sip) % periods[2]);
}

// Nodes are shifted whole, from outermost node to outermost node.
std::string_view find_obstacle_of_nodes(const SipNetwork& network, int period) {
  const int size = network.sips_in_node(network.level_count());
  if (period == 1 && size > 1) return "its SIPs form nodes";
  return size % period == 0 ? "" : "its nodes do not consist of groups of the period";
}

}  // namespace

std::string_view Folding::find_obstacle(const Topology& topology, int period) {
  const SipNetwork network(topology);
  if (!topology.faults.empty()) return "the topology has faults";
  if (network.has_unlike_links()) return "its links are unlike";
  if (network.has_nodes()) return find_obstacle_of_nodes(network, period);
  const SwitchSpec& shared = topology.system.network_switch;
  if (network.has_switch()) {
    return shared.core.costs_time() || shared.sums ? "its switch is one for all" : "";
  }
  const Grid& grid = network.grid();
  const bool closes = network.joins_all() || grid.wraps;
  if (!closes) return "its SIPs at an edge have fewer links";
  if (find_periods(grid, period)) return "";
  return period == 2 ? "no dimension has an even number of SIPs"
                     : "its rows do not consist of groups of the period";
}

Folding::Folding(const Topology& topology, int period)
    : network_(topology), simulated_(topology.system.sip_count) {
  if (period == 0) return;
  simulated_ = 0;
  for (int sip = 0; sip < topology.system.sip_count; ++sip) {
    firsts_.push_back(find_first(network_, sip, period));
    indices_.push_back(firsts_.back() == sip ? simulated_++ : 0);
  }
}

int Folding::shift(int other, int sip) const {
  if (!is_on()) return other;
  return network_.sip_at(network_.place_seen_from(sip, other), first_of(sip));
}

int Folding::shift_back(int other, int sip) const {
  if (!is_on()) return other;
  return network_.sip_at(network_.place_seen_from(first_of(sip), other), sip);
}

// Where a dimension has two SIPs, the ways there and back lead over links in opposite directions,
// and a shift along it turns them round.
SipNetwork::Link Folding::shift(const SipNetwork::Link& link) const {
  const int first = first_of(link.sip);
  if (network_.is_of_nodes(link.number) || network_.has_switch()) return {first, link.number};
  if (network_.joins_all()) return {first, shift(link.number, link.sip)};
  const int along = link.number / 2;
  const bool turns = network_.size_along(along) == 2 &&
                     coordinate_of(network_.grid(), first, along) !=
                         coordinate_of(network_.grid(), link.sip, along);
  return {first, turns ? link.number ^ 1 : link.number};
}

}  // namespace kernbench::sim
