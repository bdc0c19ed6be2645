#include "ccl/core/lower_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccl/core/node_bound.h"
#include "ccl/core/ways.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

namespace {

// The least rate at which a SIP sends over all of its links.
Bandwidth least_rate(const sim::SipNetwork& sips, int count) {
  Bandwidth least = Bandwidth::unlimited();
  for (int sip = 0; sip < count; ++sip) least = std::min(least, sips.rate_of(sip));
  return least;
}

using distributed::Block;
using distributed::BlockCount;
using distributed::CollectiveCall;
using distributed::CollectiveKind;

Bytes count_bytes(const std::vector<Block>& blocks, std::size_t of) {
  const Block* block = block_for(blocks, static_cast<int>(of));
  return block == nullptr ? 0 : block->count * size_of(block->tensor.dtype());
}

// True if member `to` needs something of member `from`.
bool is_needed(CollectiveKind kind, int root, std::size_t from, std::size_t to) {
  return traits_of(kind).is_sent(root, static_cast<int>(from), static_cast<int>(to));
}

// The bytes that member `to` must get from member `from` if no other has them; 0 if it needs none.
class Needs {
 public:
  explicit Needs(std::span<const CollectiveCall> requests) : requests_(requests) {}

  Bytes operator()(std::size_t from, std::size_t to) const {
    const CollectiveCall& request = requests_[from];
    return is_needed(request.kind, request.root, from, to) ? count_bytes(request.gives, to) : 0;
  }

 private:
  const std::span<const CollectiveCall> requests_;
};

// The bytes that one member must send, or receive, with the distances to its peers.
struct Traffic {
  Bytes bytes = 0;
  Time nearest = Time::max();
  Time farthest{0};

  void add(Bytes more, Time way, bool once) {
    if (more == 0) return;
    bytes = once ? std::max(bytes, more) : bytes + more;
    nearest = std::min(nearest, way);
    farthest = std::max(farthest, way);
  }
};

// The bounds for blocks that each have one giver and one taker: one by the number of links that all
// of them cross together, and one by the links between a part of the grid and the rest, which all
// blocks from there to the rest cross.
class BlockTraffic {
 public:
  BlockTraffic(const Topology& topology, std::span<const int> sips)
      : topology_(topology), network_(topology), grid_(network_.grid()), sips_(sips) {}

  template <class BytesOf>
  Time bound(const BytesOf& needs) const {
    Bytes hop_bytes = 0;
    for_each_block(needs, [&](int from, int to, Bytes bytes) {
      hop_bytes += bytes * network_.hops(from, to);
    });
    if (hop_bytes == 0) return Time{0};
    Time busy = at_least(hop_bytes, 1, 1, network_.rate());
    if (network_.has_switch() && !network_.has_nodes()) {
      busy =
          std::max(busy, at_least(hop_bytes, 1, 1, topology_.system.network_switch.core.bandwidth));
    }
    const bool is_grid = !network_.joins_all() && !network_.has_nodes();
    if (is_grid) busy = std::max(busy, across_grid(needs));
    return network_.to_neighbour() + busy;
  }

 private:
  template <class BytesOf>
  Time across_grid(const BytesOf& needs) const {
    return std::max({across(needs, 0, grid_.w, [&](int sip) { return grid_.x_of(sip); }),
                     across(needs, 1, grid_.h, [&](int sip) { return grid_.y_of(sip); }),
                     across(needs, 2, grid_.d, [&](int sip) { return grid_.z_of(sip); })});
  }

  template <class BytesOf, class Visit>
  void for_each_block(const BytesOf& needs, Visit visit) const {
    for (std::size_t from = 0; from < sips_.size(); ++from) {
      for (std::size_t to = 0; to < sips_.size(); ++to) {
        if (from != to) visit(sips_[from], sips_[to], needs(from, to));
      }
    }
  }

  // Returns the longest time that the bytes leaving coordinates [begin, end) of a dimension need on
  // the links at both ends, over all such ranges.
  template <class BytesOf, class Coordinate>
  Time across(const BytesOf& needs, int dimension, int size, Coordinate coordinate) const {
    Time busy{0};
    std::vector<Bandwidth> borders;  // behind each coordinate but the last of a line
    const bool is_ring = grid_.wraps && size > 2;
    for (int i = 0; i < size - (is_ring ? 0 : 1); ++i) {
      borders.push_back(network_.rate_across(dimension, i));
    }
    for (int begin = 0; begin < size; ++begin) {
      for (int end = begin + 1; end <= size; ++end) {
        if (end - begin == size) continue;
        Bytes leaving = 0;
        for_each_block(needs, [&](int from, int to, Bytes bytes) {
          const auto is_inside = [&](int sip) {
            return coordinate(sip) >= begin && coordinate(sip) < end;
          };
          if (is_inside(from) && !is_inside(to)) leaving += bytes;
        });
        busy = std::max(busy, at_least(leaving, 1, 1, rate_at_ends(borders, begin, end, size)));
      }
    }
    return busy;
  }

  // The bandwidth out of coordinates [begin, end) of a dimension whose borders have these.
  static Bandwidth rate_at_ends(const std::vector<Bandwidth>& borders, int begin, int end,
                                int size) {
    Bandwidth rate{0};
    for (const int border : {(begin + size - 1) % size, end - 1}) {
      if (border >= std::ssize(borders)) continue;
      const Bandwidth own = borders[static_cast<std::size_t>(border)];
      if (own.is_unlimited()) return own;
      rate.per_second += own.per_second;
    }
    return rate;
  }

  const Topology& topology_;
  const sim::SipNetwork network_;
  const sim::Grid grid_;
  const std::span<const int> sips_;
};

// Larger groups are not looked at block by block.
constexpr std::size_t kMostTrafficMembers = 64;

// `needs(from, to)` returns bytes as Needs does.
template <class BytesOf>
Time bound_of_members(const Topology& topology, std::span<const int> sips, CollectiveKind kind,
                      const BytesOf& needs) {
  const sim::SipNetwork network(topology);
  Time bound{0};
  // A member sends the same data to all only once, and receives data that can be summed only once.
  const bool sends_once = traits_of(kind).gives == BlockCount::one;
  const bool receives_once = traits_of(kind).takes == BlockCount::one;
  for (std::size_t own = 0; own < sips.size(); ++own) {
    Traffic out;
    Traffic in;
    for (std::size_t other = 0; other < sips.size(); ++other) {
      if (other == own) continue;
      const Time way = network.latency(sips[own], sips[other]);
      out.add(needs(own, other), way, sends_once);
      in.add(needs(other, own), way, receives_once);
    }
    for (const Traffic& traffic : {out, in}) {
      if (traffic.bytes == 0) continue;
      bound =
          std::max({bound, traffic.farthest,
                    traffic.nearest + at_least(traffic.bytes, 1, 1, network.rate_of(sips[own]))});
    }
  }
  if (!traits_of(kind).has_lists() || sips.size() > kMostTrafficMembers) return bound;
  return std::max(bound, BlockTraffic(topology, sips).bound(needs));
}

// The time that the busiest of the links that members' ways pass takes for blocks of the least size
// that there is.
template <class BytesOf>
Time bound_of_ways(const Topology& topology, const Ways* ways, CollectiveKind kind, int root,
                   const BytesOf& needs) {
  if (ways == nullptr || kind == CollectiveKind::barrier) return Time{0};
  Bytes least = std::numeric_limits<Bytes>::max();
  for (std::size_t from = 0; from < static_cast<std::size_t>(ways->size()); ++from) {
    for (std::size_t to = 0; to < static_cast<std::size_t>(ways->size()); ++to) {
      const bool is_one = from != to && is_needed(kind, root, from, to);
      if (is_one) least = std::min(least, needs(from, to));
    }
  }
  if (least == 0) return Time{0};
  constexpr std::int64_t kParts = 1'000'000;
  constexpr double kRounding = 1e-3;  // of sums of prices
  const auto parts = static_cast<std::int64_t>(ways->least_load(kind, root) * kParts + kRounding);
  const sim::SipNetwork network(topology);
  return network.to_neighbour() +
         at_least(least, parts, kParts * topology.system.links_per_pair, network.fastest());
}

template <class BytesOf>
Time bound_of_group(const Topology& topology, std::span<const int> sips, CollectiveKind kind,
                    int root, const BytesOf& needs, const Ways* ways) {
  // The closed form counts the links of the whole machine, so it holds for a group of all SIPs
  // alone.
  const bool are_all = static_cast<int>(sips.size()) == topology.system.sip_count;
  const Time bound = kind == CollectiveKind::all_reduce && are_all
                         ? all_reduce_lower_bound(topology, sips.size() < 2 ? 0 : needs(0, 1))
                         : bound_of_members(topology, sips, kind, needs);
  return std::max({bound, bound_of_nodes(topology, sips, kind, needs),
                   bound_of_ways(topology, ways, kind, root, needs)});
}

}  // namespace

Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            CollectiveKind kind, std::span<const CollectiveCall> requests,
                            const Ways* ways) {
  return bound_of_group(topology, sips, kind, requests.front().root, Needs(requests), ways);
}

Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            CollectiveKind kind, std::span<const CollectiveCall> requests) {
  return collective_lower_bound(topology, sips, kind, requests, ways_of_sips(topology, sips).get());
}

Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            CollectiveKind kind, Bytes block, int root) {
  const auto needs = [&](std::size_t from, std::size_t to) {
    return is_needed(kind, root, from, to) ? block : 0;
  };
  return bound_of_group(topology, sips, kind, root, needs, ways_of_sips(topology, sips).get());
}

Time collective_lower_bound(const Topology& topology, CollectiveKind kind, Bytes block) {
  std::vector<int> sips(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(sips.begin(), sips.end(), 0);
  return collective_lower_bound(topology, sips, kind, block, 0);
}

namespace {

// The bytes that each HBM slice of one member's SIP must read and write.
class SliceTraffic {
 public:
  explicit SliceTraffic(const Topology& topology)
      : topology_(topology),
        slices_(sim::Routing::hbm_slice_count(topology)),
        bytes_(static_cast<std::size_t>(topology.cube_count() * slices_), 0) {}

  // Adds the shards of each tensor of which the blocks are all elements.  A tensor of which only
  // some elements take part may have them all in one slice, so it is left out of the bound.
  void add(const std::vector<Block>& blocks, bool are_written) {
    std::unordered_map<const Tensor::Storage*, std::int64_t> counts;  // never iterated
    for (const Block& block : blocks) counts[block.tensor.storage().get()] += block.count;
    for (const Block& block : blocks) {
      const auto whole = counts.extract(block.tensor.storage().get());
      if (!whole.empty() && whole.mapped() == block.tensor.numel()) add(block.tensor, are_written);
    }
  }
  Bytes most() const { return *std::ranges::max_element(bytes_); }

 private:
  void add(const Tensor& tensor, bool is_written) {
    const DPPolicy& dp = tensor.dp();
    const bool has_copies = (dp.cube == Shard::replicate && dp.cube_holders(topology_) > 1) ||
                            (dp.pe == Shard::replicate && dp.pe_holders(topology_) > 1);
    // One copy is enough to read, and which one is the algorithm's choice; all copies are written.
    if (has_copies && !is_written) return;
    for (const ShardInfo& shard : tensor.shards()) {
      const int slice = sim::Routing::hbm_slice_of(topology_, shard.pe);
      bytes_[static_cast<std::size_t>(shard.cube * slices_ + slice)] +=
          shard.shape.numel() * size_of(tensor.dtype());
    }
  }

  const Topology& topology_;
  const int slices_;
  std::vector<Bytes> bytes_;  // by cube and slice
};

// The blocks that a member writes: not those that are what it gives.
std::vector<Block> written_blocks(const CollectiveCall& request) {
  if (!distributed::changes(request)) return {};
  std::vector<Block> written = request.takes;
  if (traits_of(request.kind).is_in_place()) return written;
  const auto place = [](const Block& block) {
    return std::pair(block.tensor.storage().get(), block.first);
  };
  std::set<std::pair<const Tensor::Storage*, std::int64_t>> given;  // never iterated
  for (const Block& block : request.gives) given.insert(place(block));
  std::erase_if(written, [&](const Block& block) { return given.contains(place(block)); });
  return written;
}

}  // namespace

Time memory_lower_bound(const Topology& topology, std::span<const CollectiveCall> requests) {
  Bytes most = 0;
  for (const CollectiveCall& request : requests) {
    SliceTraffic traffic(topology);
    const bool gives =
        traits_of(request.kind).root != distributed::Root::giver || request.rank == request.root;
    if (gives) traffic.add(request.gives, false);
    traffic.add(written_blocks(request), true);
    most = std::max(most, traffic.most());
  }
  return at_least(most, 1, 1, sim::Routing::hbm_slice(topology).bandwidth);
}

int directed_link_count(const Topology& topology) {
  return sim::SipNetwork(topology).link_count();
}

Time all_reduce_lower_bound(const Topology& topology, Bytes bytes) {
  const sim::SipNetwork sips(topology);
  const int count = topology.system.sip_count;
  if (count < 2 || bytes == 0) return Time{0};
  const SwitchSpec network_switch =
      sips.has_switch() && !sips.has_nodes() ? topology.system.network_switch : SwitchSpec{};
  Time busy = std::max(at_least(bytes, 1, 1, least_rate(sips, count)),
                       at_least(bytes, 1, 1, sips.rate_across()));
  for (int level = 1; level <= sips.level_count(); ++level) {  // an all_reduce of the nodes
    if (sips.nodes(level).count == 1) continue;
    busy = std::max(
        busy, at_least(bytes, 2 * (sips.node_count(level) - 1), 1, sips.rate_between_nodes(level)));
  }
  // A switch that adds up messages sends each sum once, so the bytes of all messages are no bound
  // there.
  if (!network_switch.sums) {
    busy = std::max({busy, at_least(bytes, 2 * (count - 1), 1, sips.rate()),
                     at_least(bytes, 2 * (count - 1), 1, network_switch.core.bandwidth)});
  }
  return std::max(sips.to_neighbour() + busy, sips.diameter());
}

Time pe_all_reduce_lower_bound(const Topology& topology, int world_size, Bytes bytes) {
  if (world_size < 2 || bytes == 0) return Time{0};
  const Bandwidth port = std::min(topology.cube.noc.bandwidth, topology.pe.tcm.bandwidth);
  const Time news = 2 * (topology.cube.noc.latency + topology.pe.tcm.latency);
  return news + at_least(bytes, 2 * (world_size - 1), world_size, port);
}

}  // namespace kernbench::ccl
