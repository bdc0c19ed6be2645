#include "benches/ddp/step_bound.h"

#include <algorithm>

#include "benches/bench/peak_flops.h"
#include "ccl/core/lower_bound.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::ddp {

namespace {

using nn::parallel::BucketTimes;

constexpr int kPassesOverWeights = 2;        // forward, and the gradient of the input
constexpr int kProductsOfLayer = 3;          // the gradient of the weight, too
constexpr int kOptimizerReadsAndWrites = 7;  // parameter, gradient and two moments; all but one
constexpr double kFlopsOfProduct = 2;

// Bounds a bucket's collective; in a mesh as if its data parallel group had all links to itself.
Time network_bound(const Topology& topology, const StepInput& input, const BucketTimes& bucket) {
  using distributed::CollectiveKind;
  const std::string collective = collective_name(input.scheme, bucket);
  const bool is_all_reduce = collective == "all_reduce";
  const CollectiveKind kind = is_all_reduce                ? CollectiveKind::all_reduce
                              : collective == "all_gather" ? CollectiveKind::all_gather
                                                           : CollectiveKind::reduce_scatter;
  const Bytes block = is_all_reduce ? bucket.bytes : bucket.bytes / input.dp();
  if (input.dp() == input.world) return ccl::collective_lower_bound(topology, kind, block);
  std::vector<int> sips;  // of rank 0's group
  for (int i = 0; i < input.dp(); ++i) sips.push_back(i * input.tp);
  return ccl::collective_lower_bound(topology, sips, kind, block, 0);
}

// The latency in a bound is the time that remains if links have any bandwidth.
Time compute_latency(Topology topology, const StepInput& input, const BucketTimes& bucket) {
  topology.system.sip_link.bandwidth = Bandwidth::unlimited();
  for (UnlikeLinks& links : topology.system.unlike_links) {
    links.link.bandwidth = Bandwidth::unlimited();
  }
  topology.system.nodes.link.bandwidth = Bandwidth::unlimited();
  for (NodeLevel& level : topology.system.nodes.inner) {
    level.link.bandwidth = Bandwidth::unlimited();
  }
  topology.system.network_switch.core.bandwidth = Bandwidth::unlimited();
  return network_bound(topology, input, bucket);
}

Time seconds(double amount, double rate) {
  return rate == 0 ? Time{0} : Time{static_cast<std::int64_t>(amount / rate * 1e12)};
}

}  // namespace

Work count_work(const StepInput& input, nn::Module& module) {
  const auto size = static_cast<double>(size_of(input.dtype));
  const double weights = train::count_linear_weights(module);
  double all = 0;
  for (const Tensor& parameter : module.parameters()) all += static_cast<double>(parameter.numel());
  const double own = input.scheme == Scheme::ddp ? all : all / input.dp();
  const double forward = weights * static_cast<double>(input.size.tokens());
  return {.products = kProductsOfLayer * forward,
          .forward = forward,
          .bytes = size * (input.microbatches * kPassesOverWeights * weights + all +
                           kOptimizerReadsAndWrites * own)};
}

std::vector<BucketBound> compute_bounds(const Topology& topology, const StepInput& input,
                                        const std::vector<BucketTimes>& buckets,
                                        const std::vector<Time>& ready) {
  std::vector<BucketBound> bounds;
  Time free{0};  // the links
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const Time latency = compute_latency(topology, input, buckets[i]);
    const Time start = std::max(ready[i], free);
    free = start + network_bound(topology, input, buckets[i]) - latency;
    bounds.push_back({start, free + latency});
  }
  return bounds;
}

Time step_bound(const Topology& topology, const StepInput& input, const Work& work,
                const std::vector<BucketTimes>& buckets) {
  const double rate = peak_flops(topology, input.on.count()).value_or(0) / kFlopsOfProduct;
  const Bandwidth slice = sim::Routing::hbm_slice(topology).bandwidth;
  const int slices = input.on.cubes * sim::Routing::count_hbm_slices(topology, input.on.pes);
  const double hbm = slice.is_unlimited() ? 0 : static_cast<double>(slice.per_second) * slices;
  const std::vector<Time> at_once(buckets.size());
  const std::vector<BucketBound> sent = compute_bounds(topology, input, buckets, at_once);
  return std::max({seconds(work.products, rate), seconds(work.bytes, hbm),
                   sent.empty() ? Time{0} : sent.back().end});
}

}  // namespace kernbench::benches::ddp
