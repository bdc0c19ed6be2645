#include "ccl/lower_bound.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "sim_engine/components/grid.h"

namespace kernbench::ccl {

namespace {

// Different neighbours of a SIP: in a dimension of size 2 both directions lead to the same one.
int degree(const sim::Grid& sips, int sip) {
  int count = 0;
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const auto direction = static_cast<sim::Compass>(i);
    const int neighbour = sips.neighbour(sip, direction);
    if (neighbour < 0) continue;
    const bool again = neighbour == sips.neighbour(sip, opposite(direction));
    count += !again || i % 2 == 0;
  }
  return count;
}

int least_degree(const sim::Grid& sips) {
  int least = std::numeric_limits<int>::max();
  for (int sip = 0; sip < sips.count(); ++sip) least = std::min(least, degree(sips, sip));
  return least;
}

// Links each way across a straight cut of one dimension: on a ring it meets two places.
int cut_width(int size, int other, bool wraps) {
  if (size < 2) return std::numeric_limits<int>::max();
  return other * (wraps && size > 2 ? 2 : 1);
}

int diameter(const sim::Grid& sips) {
  if (sips.wraps) return sips.w / 2 + sips.h / 2;
  return (sips.w - 1) + (sips.h - 1);
}

// bytes * numerator / denominator at a bandwidth, rounded down: a bound must not be too high.
Time at_least(Bytes bytes, std::int64_t numerator, std::int64_t denominator, Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return Time{0};
  __extension__ using Wide = __int128;
  return Time{static_cast<std::int64_t>(static_cast<Wide>(bytes) * 1'000'000'000'000 * numerator /
                                        denominator / bandwidth.per_second)};
}

// Links on the way from one SIP to another.
int distance(const sim::Grid& sips, int from, int to) {
  const auto along = [&](int a, int b, int size) {
    const int way = std::abs(a - b);
    return sips.wraps ? std::min(way, size - way) : way;
  };
  return along(sips.x_of(from), sips.x_of(to), sips.w) +
         along(sips.y_of(from), sips.y_of(to), sips.h);
}

using distributed::Block;
using distributed::CollectiveKind;
using distributed::CollectiveRequest;

Bytes bytes_of(const std::vector<Block>& blocks, std::size_t of) {
  const Block* block = block_for(blocks, static_cast<int>(of));
  return block == nullptr ? 0 : block->count * size_of(block->tensor.dtype());
}

// Whether member `to` depends on member `from`, and what it must get from it if nobody else has it.
class Needs {
 public:
  Needs(CollectiveKind kind, std::span<const CollectiveRequest> requests)
      : kind_(kind), requests_(requests) {}

  Bytes bytes(std::size_t from, std::size_t to) const {
    const auto root = static_cast<std::size_t>(requests_[from].root);
    switch (kind_) {
      case CollectiveKind::broadcast:
      case CollectiveKind::scatter:
        return from == root ? bytes_of(requests_[from].gives, to) : 0;
      case CollectiveKind::reduce:
      case CollectiveKind::gather:
        return to == root ? bytes_of(requests_[from].gives, to) : 0;
      default:
        return bytes_of(requests_[from].gives, to);
    }
  }
  // What is for all is sent once; what is added up is received once.
  bool sends_once() const {
    return kind_ == CollectiveKind::all_reduce || kind_ == CollectiveKind::broadcast ||
           kind_ == CollectiveKind::all_gather || kind_ == CollectiveKind::reduce;
  }
  bool receives_once() const {
    return kind_ == CollectiveKind::all_reduce || kind_ == CollectiveKind::reduce ||
           kind_ == CollectiveKind::reduce_scatter || kind_ == CollectiveKind::broadcast;
  }

 private:
  const CollectiveKind kind_;
  const std::span<const CollectiveRequest> requests_;
};

// All that one member must send, or receive.
struct Traffic {
  Bytes bytes = 0;
  int nearest = std::numeric_limits<int>::max();
  int farthest = 0;

  void add(Bytes more, int way, bool once) {
    if (more == 0) return;
    bytes = once ? std::max(bytes, more) : bytes + more;
    nearest = std::min(nearest, way);
    farthest = std::max(farthest, way);
  }
};

}  // namespace

Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            CollectiveKind kind, std::span<const CollectiveRequest> requests) {
  const sim::Grid grid = sim::sip_grid(topology);
  const LinkSpec& link = topology.system.sip_link;
  const Needs needs(kind, requests);
  Time bound{0};
  for (std::size_t own = 0; own < sips.size(); ++own) {
    Traffic out;
    Traffic in;
    for (std::size_t other = 0; other < sips.size(); ++other) {
      if (other == own) continue;
      const int way = distance(grid, sips[own], sips[other]);
      out.add(needs.bytes(own, other), way, needs.sends_once());
      in.add(needs.bytes(other, own), way, needs.receives_once());
    }
    for (const Traffic& traffic : {out, in}) {
      if (traffic.bytes == 0) continue;
      bound = std::max({bound, link.latency * traffic.farthest,
                        link.latency * traffic.nearest +
                            at_least(traffic.bytes, 1, degree(grid, sips[own]), link.bandwidth)});
    }
  }
  return bound;
}

int directed_link_count(const Topology& topology) {
  const sim::Grid sips = sim::sip_grid(topology);
  int count = 0;
  for (int sip = 0; sip < sips.count(); ++sip) count += degree(sips, sip);
  return count;
}

Time all_reduce_lower_bound(const Topology& topology, Bytes bytes) {
  const sim::Grid sips = sim::sip_grid(topology);
  if (sips.count() < 2 || bytes == 0) return Time{0};
  const LinkSpec& link = topology.system.sip_link;
  const int cut =
      std::min(cut_width(sips.w, sips.h, sips.wraps), cut_width(sips.h, sips.w, sips.wraps));
  return std::max({
      at_least(bytes, 2 * (sips.count() - 1), directed_link_count(topology), link.bandwidth),
      at_least(bytes, 1, least_degree(sips), link.bandwidth),
      at_least(bytes, 1, cut, link.bandwidth),
      link.latency * diameter(sips),
  });
}

Time pe_all_reduce_lower_bound(const Topology& topology, int world_size, Bytes bytes) {
  if (world_size < 2 || bytes == 0) return Time{0};
  const Bandwidth port = std::min(topology.cube.noc.bandwidth, topology.pe.tcm.bandwidth);
  const Time news = 2 * (topology.cube.noc.latency + topology.pe.tcm.latency);
  return std::max(at_least(bytes, 2 * (world_size - 1), world_size, port), news);
}

}  // namespace kernbench::ccl
