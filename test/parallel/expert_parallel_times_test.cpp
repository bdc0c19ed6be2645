// Tests what is sent to experts, by rows, and how long that takes, by closed forms.

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "test/parallel/expert_parallel_world.h"

namespace kernbench::test::expert_parallel_times_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kHidden = 64;

struct Sending {
  int ranks = 4;
  moe::LoadShape shape = {};
  std::string_view routing = "W0";
  moe::DispatchOptions options = {};
};

Sending sending(int ranks, std::string_view routing, const moe::DispatchOptions& options = {}) {
  return {ranks, {ranks, 16, 4, 32, 1, 0}, routing, options};
}

struct Sent {
  std::vector<moe::ExchangeSizes> ranks;
  Time time{0};  // from the first dispatch to the last end
};

// Only links take time.
Sent send(const Sending& of) {
  Sent sent;
  sent.ranks.resize(static_cast<std::size_t>(of.ranks));
  RuntimeContext torch(link_topology(SipTopology::ring_1d, of.ranks), {.data = false});
  torch.distributed.init_process_group("ahbm");
  const moe::RoutingLoad load = moe::RoutingLoad::parse(of.routing);
  run_on_devices(torch, of.ranks, [&](int rank) {
    const std::int64_t tokens = load.tokens(of.shape, rank);
    const Shape pairs{tokens, of.shape.top_k};
    const Tensor x = torch.zeros({tokens, kHidden}, kOnOnePe);
    const Tensor weights = torch.zeros(pairs, kOnOnePe);
    const Tensor experts = torch.zeros(pairs, {.dtype = DType::i64, .dp = DPPolicy::on_one_pe()});
    moe::DispatchOptions options = of.options;
    options.experts = load.experts(of.shape, rank);
    torch.distributed.barrier();
    const Time begin = torch.engine().now();
    const moe::Dispatched own = moe::dispatch(x, experts, weights, of.shape.num_experts, options);
    torch.ahbm.synchronize();
    sent.time = std::max(sent.time, torch.engine().now() - begin);
    sent.ranks[static_cast<std::size_t>(rank)] = moe::sizes_of(own.handle);
  });
  return sent;
}

std::int64_t sum_of(const Integers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

constexpr std::array kRoutings = {
    "W0", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "lognormal:0.5", "lognormal:2"};

TEST_CASE("without a capacity all pairs are sent, and arrive where they are sent to",
          "[expert_parallel]") {
  for (const int ranks : {1, 2, 4}) {
    for (const std::string_view routing : kRoutings) {
      const Sending of = sending(ranks, routing);
      const Sent sent = send(of);
      CAPTURE(ranks, routing);
      const moe::RoutingLoad load = moe::RoutingLoad::parse(routing);
      const Integers loads = moe::expert_loads(load, of.shape);
      const std::int64_t on_rank = of.shape.num_experts / ranks;
      for (int rank = 0; rank < ranks; ++rank) {
        const moe::ExchangeSizes& own = sent.ranks[static_cast<std::size_t>(rank)];
        CHECK(own.kept == load.tokens(of.shape, rank) * of.shape.top_k);
        CHECK(sum_of(own.sent_rows) == own.kept);
        const auto first = loads.begin() + rank * on_rank;
        CHECK(sum_of(own.received_rows) == std::accumulate(first, first + on_rank, 0L));
        for (int peer = 0; peer < ranks; ++peer) {
          CHECK(
              own.received_rows[static_cast<std::size_t>(peer)] ==
              sent.ranks[static_cast<std::size_t>(peer)].sent_rows[static_cast<std::size_t>(rank)]);
        }
      }
    }
  }
}

// Counts by itself the pairs that experts have no room for.
std::int64_t count_dropped(const Sending& of, int rank, std::int64_t capacity) {
  Integers loads(static_cast<std::size_t>(of.shape.num_experts));
  std::int64_t dropped = 0;
  for (const std::int64_t expert : moe::RoutingLoad::parse(of.routing).experts(of.shape, rank)) {
    dropped += ++loads[static_cast<std::size_t>(expert)] > capacity ? 1 : 0;
  }
  return dropped;
}

TEST_CASE("kept and dropped pairs are all; a rank sends each other E / ep C rows at most",
          "[expert_parallel]") {
  for (const int ranks : {2, 4}) {
    for (const std::string_view routing : kRoutings) {
      for (const double factor : {0.5, 1.0, 1.25}) {
        const Sending of = sending(ranks, routing, {.capacity_factor = factor});
        const Sent sent = send(of);
        CAPTURE(ranks, routing, factor);
        for (int rank = 0; rank < ranks; ++rank) {
          const moe::ExchangeSizes& own = sent.ranks[static_cast<std::size_t>(rank)];
          const std::int64_t slots = own.tokens * own.top_k;
          CHECK(own.kept + count_dropped(of, rank, own.capacity) == slots);
          CHECK(std::ranges::max(own.sent_rows) <= 16 / ranks * own.capacity);
        }
      }
    }
  }
}

// The time of all_to_all_single of as many rows for each rank.
Time even_exchange(int ranks, std::int64_t rows) {
  Time time{0};
  RuntimeContext torch(link_topology(SipTopology::ring_1d, ranks), {.data = false});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, ranks, [&](int) {
    const Tensor x = torch.zeros({rows, kHidden}, kOnOnePe);
    const Tensor y = torch.empty_like(x);
    torch.distributed.barrier();
    const Time begin = torch.engine().now();
    torch.distributed.all_to_all_single(y, x);
    torch.ahbm.synchronize();
    time = std::max(time, torch.engine().now() - begin);
  });
  return time;
}

TEST_CASE("padded: each rank sends and receives E / ep C rows, in the time of an even exchange",
          "[expert_parallel][timing]") {
  for (const int ranks : {2, 4, 8}) {
    for (const std::string_view routing : {"W0", "W1", "W2", "W3", "W6", "lognormal:2"}) {
      for (const double factor : {0.5, 1.0, 1.25}) {
        const Sent sent = send(sending(ranks, routing,
                                       {.capacity_factor = factor,
                                        .pad_to_capacity = true,
                                        .drop_policy = moe::DropPolicy::position,
                                        .routing = moe::RoutingReader::device}));
        const std::int64_t capacity = moe::expert_capacity(32 * 4, 16, factor);
        CAPTURE(ranks, routing, capacity);
        const Integers even(static_cast<std::size_t>(ranks), 16 / ranks * capacity);
        for (const moe::ExchangeSizes& own : sent.ranks) {
          CHECK(own.sent_rows == even);
          CHECK(own.received_rows == even);
        }
        CHECK(sent.time == even_exchange(ranks, 16 * capacity));
      }
    }
  }
}

// T k integers, and the counts of E int32, come over the host link; the counts go there, too.
TEST_CASE("the host's reading of the choice takes the time of its link; a device's takes none",
          "[expert_parallel][timing]") {
  struct Times {
    Time all{0};
    Time reads{0};
  };
  const auto times_of = [](moe::RoutingReader reader) {
    Topology topology = link_topology(SipTopology::ring_1d, 2);
    topology.system.host_link = {Bandwidth{1'000'000'000}, Time{7'000}};
    RuntimeContext torch(topology, {.data = false});
    torch.distributed.init_process_group("ahbm");
    Times times;
    run_on_devices(torch, 2, [&](int) {
      const Tensor x = torch.zeros({32, kHidden}, kOnOnePe);
      const Tensor weights = torch.zeros({32, 4}, kOnOnePe);
      const Tensor experts =
          torch.zeros({32, 4}, {.dtype = DType::i64, .dp = DPPolicy::on_one_pe()});
      torch.ahbm.synchronize();
      torch.distributed.barrier();
      const Time begin = torch.engine().now();
      const moe::Dispatched sent = moe::dispatch(
          x, experts, weights, 16,
          {.capacity_factor = 1,
           .pad_to_capacity = true,
           .drop_policy = moe::DropPolicy::position,
           .routing = reader,
           .experts = moe::RoutingLoad::parse("W0").experts({2, 16, 4, 32, 0, 0}, 0)});
      torch.ahbm.synchronize();
      times.all = std::max(times.all, torch.engine().now() - begin);
      times.reads = moe::sizes_of(sent.handle).host_reads;
    });
    return times;
  };
  // 32 x 4 integers of 8 bytes, at 1 byte a ns.
  const Time expected{(7 + 32 * 4 * 8) * 1000};
  const Times host = times_of(moe::RoutingReader::host);
  const Times device = times_of(moe::RoutingReader::device);
  CHECK(host.all - device.all == expected);
  CHECK(host.reads == expected);
  CHECK(device.reads == Time{0});
}

}  // namespace
}  // namespace kernbench::test::expert_parallel_times_test
