#include "sim_engine/components/routing.h"

#include <algorithm>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

int Routing::hbm_slice_count(const Topology& topology) {
  const HbmSpec& hbm = topology.cube.hbm;
  return hbm.slices > 0 ? hbm.slices : std::min(hbm.channels, topology.pe_count());
}

// One count for each slice of the present cube is enough.
Sharers Routing::count_sharers(const Topology& topology, std::span<const PeLocation> pes) {
  std::vector<int> of_slice(static_cast<std::size_t>(hbm_slice_count(topology)));
  Sharers most;
  int of_cube = 0;
  for (std::size_t i = 0; i < pes.size(); ++i) {
    const bool is_new = i > 0 && (pes[i].cube != pes[i - 1].cube || pes[i].sip != pes[i - 1].sip);
    if (is_new) {
      std::ranges::fill(of_slice, 0);
      of_cube = 0;
    }
    const int slice = hbm_slice_of(topology, pes[i].pe);
    most.of_slice = std::max(most.of_slice, ++of_slice[static_cast<std::size_t>(slice)]);
    most.of_cube = std::max(most.of_cube, ++of_cube);
  }
  return most;
}

int Routing::hbm_slice_of(const Topology& topology, int pe) {
  return pe / (topology.pe_count() / hbm_slice_count(topology));
}

int Routing::count_hbm_slices(const Topology& topology, int pes) {
  return hbm_slice_of(topology, pes - 1) + 1;
}

LinkSpec Routing::hbm_slice(const Topology& topology) {
  const HbmSpec& hbm = topology.cube.hbm;
  if (hbm.bandwidth.is_unlimited()) return {hbm.bandwidth, hbm.latency};
  const int channels = hbm.channels / hbm_slice_count(topology);
  const Wide peak = Wide{hbm.bandwidth.per_second} * channels;
  return {{static_cast<std::int64_t>(peak * hbm.efficiency.millionths / Share::kWhole)},
          hbm.latency};
}

Routing::Routing(const Topology& topology)
    : topology_(topology),
      cubes_(cube_grid(topology)),
      sips_(topology),
      corners_(topology.cube.corner.costs_time() ? std::ssize(topology.cube.corners) : 0),
      hbm_at_(kCorners + static_cast<LinkId>(corners_ * kPerCorner)),
      hbm_slices_(static_cast<LinkId>(hbm_slice_count(topology))),
      pes_at_(hbm_at_ + hbm_slices_),
      per_cube_(pes_at_ + static_cast<LinkId>(topology.pe_count()) * kPerPe),
      cubes_at_(kSipOut +
                static_cast<LinkId>(sips_.links_per_sip() * topology.system.links_per_pair)),
      per_sip_(cubes_at_ + static_cast<LinkId>(topology.cube_count()) * per_cube_),
      hbm_(hbm_slice(topology)),
      sram_{topology.cube.sram.bandwidth, topology.cube.sram.latency},
      tcm_{topology.pe.tcm.bandwidth, topology.pe.tcm.latency},
      sums_(topology.system.network_switch.sums.value_or(LinkSpec{})) {}

const LinkSpec& Routing::spec(LinkId link) const {
  if (link >= core_link()) {
    const bool is_core = (link - core_link()) % kSwitchLinks == kCore;
    return is_core ? topology_.system.network_switch.core : sums_;
  }
  const LinkId in_sip = link % per_sip_;
  if (in_sip < kIoOut) return topology_.system.host_link;
  if (in_sip < kSipOut) return topology_.sip.io_hop;
  if (in_sip < cubes_at_) {
    const LinkId number = (in_sip - kSipOut) / static_cast<LinkId>(topology_.system.links_per_pair);
    return sips_.spec({sip_of(link), static_cast<int>(number)});
  }
  const LinkId in_cube = (in_sip - cubes_at_) % per_cube_;
  if (in_cube < kSram) return topology_.sip.ucie;
  if (in_cube < kCorners) return sram_;
  if (in_cube < hbm_at_) return topology_.cube.corner;
  if (in_cube < pes_at_) return hbm_;
  const LinkId in_pe = (in_cube - pes_at_) % kPerPe;
  return in_pe < kTcmRead ? topology_.cube.noc : tcm_;
}

LinkId Routing::hbm_link(const PeLocation& at) const {
  return cube_link(at.sip, at.cube, hbm_at_ + static_cast<LinkId>(hbm_slice_of(topology_, at.pe)));
}

// A slice of HBM lies in the corner of its PEs, or in the middle if they have several.
std::optional<int> Routing::find_corner(const Endpoint& end) const {
  switch (end.kind) {
    case Endpoint::Kind::tcm:
    case Endpoint::Kind::pe_cpu:
      return end.at.pe / topology_.cube.pe_per_corner;
    case Endpoint::Kind::hbm: {
      const int per_corner = topology_.cube.pe_per_corner;
      const int pes = topology_.pe_count() / static_cast<int>(hbm_slices_);
      const int first = end.at.pe / pes * pes;
      if (first / per_corner != (first + pes - 1) / per_corner) return std::nullopt;
      return first / per_corner;
    }
    default:
      return std::nullopt;
  }
}

void Routing::pass_corner(const Endpoint& end, LinkId direction, std::vector<LinkId>& links) const {
  const std::optional<int> corner = find_corner(end);
  if (!corner || corners_ == 0) return;
  links.push_back(cube_link(end.at.sip, end.at.cube,
                            kCorners + static_cast<LinkId>(*corner) * kPerCorner + direction));
}

// Adds the links from the endpoint to its cube's network, or to the IO chiplet.
void Routing::leave(const Endpoint& from, std::vector<LinkId>& links) const {
  switch (from.kind) {
    case Endpoint::Kind::host:
      links.push_back(sip_link(from.at.sip, kHostDown));
      break;
    case Endpoint::Kind::sram:
      links.push_back(cube_link(from.at.sip, from.at.cube, kSram));
      break;
    case Endpoint::Kind::hbm:
      links.push_back(hbm_link(from.at));
      break;
    case Endpoint::Kind::tcm:
      links.push_back(pe_link(from.at, kTcmRead));
      links.push_back(pe_link(from.at, kNocOut));
      break;
    case Endpoint::Kind::pe_cpu:
      links.push_back(pe_link(from.at, kNocOut));
      break;
    case Endpoint::Kind::io_cpu:
    case Endpoint::Kind::m_cpu:
    case Endpoint::Kind::network:
      break;
  }
}

void Routing::enter(const Endpoint& to, std::vector<LinkId>& links) const {
  switch (to.kind) {
    case Endpoint::Kind::host:
      links.push_back(sip_link(to.at.sip, kHostUp));
      break;
    case Endpoint::Kind::sram:
      links.push_back(cube_link(to.at.sip, to.at.cube, kSram));
      break;
    case Endpoint::Kind::hbm:
      links.push_back(hbm_link(to.at));
      break;
    case Endpoint::Kind::tcm:
      links.push_back(pe_link(to.at, kNocIn));
      links.push_back(pe_link(to.at, kTcmWrite));
      break;
    case Endpoint::Kind::pe_cpu:
      links.push_back(pe_link(to.at, kNocIn));
      break;
    case Endpoint::Kind::io_cpu:
    case Endpoint::Kind::m_cpu:
    case Endpoint::Kind::network:
      break;
  }
}

void Routing::cross_cubes(int sip, int from, int to, std::vector<LinkId>& links) const {
  while (from != to) {
    const Compass step = cubes_.first_step(from, to);
    links.push_back(cube_link(sip, from, kUcieOut + static_cast<LinkId>(step)));
    from = cubes_.neighbour(from, step);
  }
}

void Routing::pass(LinkId link, std::vector<LinkId>& links) const {
  if (spec(link).costs_time()) links.push_back(link);
}

LinkId Routing::parallel_link(const SipNetwork::Link& link, const PeLocation& pe) const {
  const int parallel = topology_.system.links_per_pair;
  const int lane =
      sips_.is_of_nodes(link.number) ? 0 : (pe.cube * topology_.pe_count() + pe.pe) % parallel;
  return sip_link(link.sip, kSipOut + static_cast<LinkId>(link.number * parallel + lane));
}

// A message that passes through a SIP goes over its IO chiplet.
void Routing::cross_sips(const Endpoint& from, const Endpoint& to,
                         std::vector<LinkId>& links) const {
  const bool is_from_network = from.kind == Endpoint::Kind::network;
  const PeLocation& pe = is_from_network ? to.at : from.at;
  if (is_from_network || to.kind == Endpoint::Kind::network) {
    const int number = is_from_network ? SipNetwork::kFromSwitch : SipNetwork::kToSwitch;
    links.push_back(parallel_link({pe.sip, number}, pe));
    return;
  }
  const int level = sips_.level_between(from.at.sip, to.at.sip);
  for (const SipNetwork::Link& link : sips_.way(from.at.sip, to.at.sip)) {
    const auto pass_core = [&](int number) {
      if (!sips_.has_switch() || link.number != number) return;
      const auto node = static_cast<LinkId>(sips_.node_of(link.sip));
      pass(core_link() + node * kSwitchLinks + kCore, links);
    };
    const bool is_passed = link.sip != from.at.sip && level == 0 && !sips_.has_switch();
    if (is_passed) pass(sip_link(link.sip, kIoOut), links);
    pass_core(SipNetwork::kFromSwitch);
    links.push_back(parallel_link(link, pe));
    if (level > 0) pass_core(SipNetwork::kToSwitch);  // on the way to other nodes
  }
}

// Adds the links from the endpoint's cube to the IO chiplet and over it.
void Routing::leave_sip(const Endpoint& from, std::vector<LinkId>& links) const {
  const int gate = io_cube(from.at.cube);
  cross_cubes(from.at.sip, from.at.cube, gate, links);
  links.push_back(cube_link(from.at.sip, gate, kToIo));
  pass(sip_link(from.at.sip, kIoOut), links);
}

void Routing::enter_sip(const Endpoint& to, std::vector<LinkId>& links) const {
  const int gate = io_cube(to.at.cube);
  pass(sip_link(to.at.sip, kIoIn), links);
  links.push_back(cube_link(to.at.sip, gate, kFromIo));
  cross_cubes(to.at.sip, gate, to.at.cube, links);
}

// The cube on the IO chiplet's edge through which `cube` reaches the chiplet, in a straight line.
int Routing::io_cube(int cube) const {
  switch (topology_.sip.io_edge) {
    case Edge::west:
      return cubes_.index_of(0, cubes_.y_of(cube));
    case Edge::east:
      return cubes_.index_of(cubes_.w - 1, cubes_.y_of(cube));
    case Edge::north:
      return cubes_.index_of(cubes_.x_of(cube), 0);
    case Edge::south:
      break;
  }
  return cubes_.index_of(cubes_.x_of(cube), cubes_.h - 1);
}

namespace {

bool is_memory(Endpoint::Kind kind) {
  return kind == Endpoint::Kind::tcm || kind == Endpoint::Kind::sram || kind == Endpoint::Kind::hbm;
}

}  // namespace

Path Routing::route(const Endpoint& from, const Endpoint& to) const {
  const auto at_io = [](const Endpoint& end) {
    return end.kind == Endpoint::Kind::host || end.kind == Endpoint::Kind::io_cpu ||
           end.kind == Endpoint::Kind::network;
  };
  Path path;
  path.from_sip = from.at.sip;
  path.to_sip = to.at.sip;
  path.from_place =
      static_cast<std::uint32_t>(make_key({from.kind, {0, from.at.cube, from.at.pe}}));
  path.is_of_launch = !is_memory(from.kind) && !is_memory(to.kind);
  path.is_of_kernels = from.kind == Endpoint::Kind::tcm || to.kind == Endpoint::Kind::tcm ||
                       (is_memory(from.kind) && is_memory(to.kind));
  const bool stays = from.at.sip == to.at.sip && from.at.cube == to.at.cube && find_corner(from) &&
                     find_corner(from) == find_corner(to);
  leave(from, path.links);
  if (!stays) pass_corner(from, kCornerOut, path.links);
  if (from.kind == Endpoint::Kind::network && to.kind == Endpoint::Kind::network) {
    path.links.push_back(core_link() + kSums);
  } else if (from.at.sip == to.at.sip && !at_io(from) && !at_io(to)) {
    cross_cubes(from.at.sip, from.at.cube, to.at.cube, path.links);
  } else {
    if (!at_io(from)) leave_sip(from, path.links);
    cross_sips(from, to, path.links);
    if (!at_io(to)) enter_sip(to, path.links);
  }
  if (!stays) pass_corner(to, kCornerIn, path.links);
  enter(to, path.links);
  // A transfer within one TCM does not use the network.
  if (from.kind == Endpoint::Kind::tcm && to.kind == Endpoint::Kind::tcm && from.at == to.at) {
    path.links = {pe_link(from.at, kTcmRead), pe_link(from.at, kTcmWrite)};
  }
  if (to.kind == Endpoint::Kind::hbm) {
    path.turn = topology_.cube.hbm.turn_around;
    path.port = hbm_.bandwidth;
  }
  for (const LinkId id : path.links) {
    const LinkSpec& link = spec(id);
    path.latency += link.latency;
    if (find_class(id) == UnitClass::hbm) path.hbm_latency += link.latency;
    if (link.bandwidth < path.bottleneck || id == path.links.front()) path.slowest = id;
    path.bottleneck = std::min(path.bottleneck, link.bandwidth);
    const bool is_turned = path.turn > Time{0} && id == path.links.back();
    if (!link.costs_time() && !is_turned) continue;
    if (is_hbm(id)) path.hbm_hop = static_cast<int>(path.hops.size());
    path.hops.push_back(id);
  }
  path.is_hbm_bound = !path.links.empty() && find_class(path.slowest) == UnitClass::hbm;
  if (path.from_sip != path.to_sip) {
    for (const LinkId id : path.hops) {
      path.seen_places.push_back(sips_.place_seen_from(sip_of(id), path.from_sip));
    }
    path.seen_places.push_back(sips_.place_seen_from(path.to_sip, path.from_sip));
  }
  return path;
}

}  // namespace kernbench::sim
