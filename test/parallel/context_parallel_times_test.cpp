// Tests the times of attention over a ring against their closed forms: c of all rows of a rank and
// all keys of another one, d of its own with a causal mask, v of a message with keys and values.

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/parallel/context_parallel_world.h"
#include "test/parallel/pipeline_world.h"

namespace kernbench::test::context_parallel_times_test {
namespace {

namespace F = nn::functional;

// Between two ranks.
struct LinkTimes {
  std::int64_t latency = 0;      // ns
  std::int64_t ns_per_byte = 0;  // 0: any number of bytes at a time
};

struct TimedRing {
  int ranks = 1;
  std::int64_t tokens = 64;  // of a rank
  TokenOrder order = TokenOrder::contiguous;
  bool is_causal = false;
  LinkTimes link = {};
  std::string_view method = "alltoall";
  std::int64_t heads = 1;
  bool has_backward = false;
};

constexpr std::int64_t kDepth = 4;
constexpr std::array kRankCounts = {2, 3, 4, 8};

void attend(RuntimeContext& torch, const TimedRing& ring) {
  Tensor x = torch.zeros({ring.heads, ring.tokens, kDepth}, kOnOnePe);
  if (ring.has_backward) x.requires_grad_();
  const Tensor y = F::scaled_dot_product_attention(x, x, x, {.is_causal = ring.is_causal});
  if (ring.has_backward) y.backward(torch.zeros_like(y));
}

// Returns the time at which each rank is done, in ns.
std::vector<double> times_of(const TimedRing& ring) {
  Topology machine = timed_pipeline_machine(ring.ranks, Time{ring.link.latency * 1000});
  if (ring.link.ns_per_byte > 0) {
    machine.system.sip_link.bandwidth = Bandwidth{1'000'000'000 / ring.link.ns_per_byte};
  }
  RuntimeContext torch(machine, {.data = false, .launch_blocking = false});
  torch.distributed.init_process_group("ahbm");
  std::vector<double> times(static_cast<std::size_t>(ring.ranks));
  run_on_devices(torch, ring.ranks, [&](int rank) {
    const auto mesh = torch.distributed.init_device_mesh("ahbm", {ring.ranks}, {"cp"});
    if (ring.method == "ulysses") {
      experimental::ulysses(mesh, {}, [&] { attend(torch, ring); });
    } else {
      experimental::set_rotate_method(torch, ring.method);
      experimental::context_parallel(mesh, {.order = ring.order}, [&] { attend(torch, ring); });
    }
    torch.ahbm.synchronize();
    times[static_cast<std::size_t>(rank)] = torch.engine().now_ns();
  });
  return times;
}

double last(const std::vector<double>& times) {
  return *std::ranges::max_element(times);
}

// Two products of n rows and n keys, on an array of one multiplier of 1 GHz.
double full_pair(std::int64_t n) {
  return static_cast<double>(2 * n * n * kDepth);
}
// Blocks of 64 rows see as many keys as their last row.
double causal_pair(std::int64_t n) {
  return full_pair(n) * (1 + 64 / static_cast<double>(n)) / 2;
}
// Keys and values, of f32, share a link.  If they have more than 1 KiB each, a notice of 16 bytes
// that the receiver expects them comes first (ADR-0173).
double message(const TimedRing& ring) {
  const std::int64_t each = ring.tokens * kDepth * 4;
  const auto time = [&](std::int64_t bytes) {
    return static_cast<double>(ring.link.latency + bytes * ring.link.ns_per_byte);
  };
  return time(2 * each) + (each > 1024 ? time(16) : 0);
}

constexpr std::array<std::int64_t, 3> kTokens = {64, 128, 256};
// The links take no time, a time that computing hides, or one that it does not hide.
constexpr std::array kLinks = {LinkTimes{0, 0}, LinkTimes{100, 1}, LinkTimes{30'000, 1},
                               LinkTimes{0, 20}, LinkTimes{0, 500}};

TEST_CASE("a ring takes c + (P - 1) max(c, v) without a mask, in any order",
          "[context_parallel][timing]") {
  for (const int p : kRankCounts) {
    for (const std::int64_t n : kTokens) {
      for (const LinkTimes& link : kLinks) {
        for (const TokenOrder order : experimental::kTokenOrders) {
          const TimedRing ring{.ranks = p, .tokens = n, .order = order, .link = link};
          CAPTURE(p, n, link.latency, link.ns_per_byte);
          const double c = full_pair(n);
          CHECK(last(times_of(ring)) == c + (p - 1) * std::max(c, message(ring)));
        }
      }
    }
  }
}

// The last rank computes with all keys, which arrive one after the other.
TEST_CASE("a causal ring in contiguous order takes max(d + (P - 1) c, k v + (P - k) c)",
          "[context_parallel][timing]") {
  for (const int p : kRankCounts) {
    for (const std::int64_t n : kTokens) {
      for (const LinkTimes& link : kLinks) {
        const TimedRing ring{.ranks = p, .tokens = n, .is_causal = true, .link = link};
        const double c = full_pair(n);
        double expected = causal_pair(n) + (p - 1) * c;
        for (int k = 1; k < p; ++k) {
          expected = std::max(expected, k * message(ring) + (p - k) * c);
        }
        CAPTURE(p, n, link.latency, link.ns_per_byte);
        CHECK(last(times_of(ring)) == expected);
      }
    }
  }
}

// A rank computes for d and then for c / 2 at a time.  Its next keys come when those before have
// been passed on and when the kernel before the last is done: there are two places for them.
double time_of_steps(int ranks, double d, double half, double v) {
  double done = d;
  double done_before = 0;
  double arrived = 0;
  for (int step = 1; step < ranks; ++step) {
    arrived = std::max(arrived, done_before) + v;
    done_before = done;
    done = std::max(arrived, done) + half;
  }
  return done;
}

// With d = c / 2, as blocks of few rows have it, this is d + (P - 1) max(c / 2, v).
TEST_CASE("heads and tails take c / 2 a step, and all ranks end together",
          "[context_parallel][timing]") {
  for (const double v : {0.0, 30.0, 50.0, 70.0}) {
    CHECK(time_of_steps(8, 50, 50, v) == 50 + 7 * std::max(50.0, v));
  }
  for (const int p : kRankCounts) {
    for (const std::int64_t n : {128, 256}) {
      for (const LinkTimes& link : kLinks) {
        const TimedRing ring{.ranks = p,
                             .tokens = n,
                             .order = TokenOrder::head_tail,
                             .is_causal = true,
                             .link = link};
        const double expected = time_of_steps(p, causal_pair(n), full_pair(n) / 2, message(ring));
        CAPTURE(p, n, link.latency, link.ns_per_byte);
        CHECK(times_of(ring) == std::vector<double>(static_cast<std::size_t>(p), expected));
      }
    }
  }
}

// A rank's rows see the keys of as many ranks up to their own number as it has a number, and those
// of the others up to the one before.
TEST_CASE("stripes are causal in each step", "[context_parallel][timing]") {
  const int p = 4;
  const double same = times_of({.tokens = 256, .is_causal = true})[0];
  const double one_less = times_of({.tokens = 255, .is_causal = true})[0];
  const auto times =
      times_of({.ranks = p, .tokens = 256, .order = TokenOrder::striped, .is_causal = true});
  for (int rank = 0; rank < p; ++rank) {
    CHECK(times[static_cast<std::size_t>(rank)] == (rank + 1) * same + (p - 1 - rank) * one_less);
  }
}

// The share of the ranks' time in which they multiply for rows that see a key: published runs of
// ring-flash-attention have 49.1 to 53.9 % at P = 8.
TEST_CASE("efficiency of a contiguous causal ring approaches P / (2 P - 1)",
          "[context_parallel][timing]") {
  const int p = 8;
  const std::int64_t n = 512;
  const double time = last(times_of({.ranks = p, .tokens = n, .is_causal = true}));
  const double efficiency = full_pair(p * n) / 2 / (p * time);
  // A block of 64 rows adds c 64 / (2 n) to the P - 1/2 pairs of the last rank.
  CHECK(efficiency == 8 / (15 + 64 / static_cast<double>(n)));
}

// By both ways round a ring of SIPs, each of a link's directions moves half of what a rank gets.
TEST_CASE("gathered keys take max(c, (P - 1) v / 2) + (P - 1) c", "[context_parallel][timing]") {
  const int p = 4;
  for (const std::int64_t ns_per_byte : {0, 1, 20, 500}) {
    const TimedRing ring{
        .ranks = p, .tokens = 128, .link = {0, ns_per_byte}, .method = "allgather"};
    const double c = full_pair(ring.tokens);
    const auto gathered = static_cast<double>((p - 1) * ring.tokens * kDepth * 4 * ns_per_byte);
    CHECK(last(times_of(ring)) == std::max(c, gathered) + (p - 1) * c);
  }
}

// Without messages' times.  Blocks of rows are those of the whole sequence.
TEST_CASE("Ulysses computes all tokens of a share of the heads", "[context_parallel][timing]") {
  for (const int p : {2, 4}) {
    const TimedRing ring{
        .ranks = p, .tokens = 128, .is_causal = true, .method = "ulysses", .heads = 2 * p};
    CHECK(times_of(ring) ==
          std::vector<double>(static_cast<std::size_t>(p), 2 * causal_pair(128 * p)));
  }
}

// Sums of gradients travel beside the computation; the last message, which brings them home, is
// exposed.
TEST_CASE("backward takes as long for each pair as for one rank's own",
          "[context_parallel][timing]") {
  const double one = last(times_of({.tokens = 128, .has_backward = true}));
  for (const int p : kRankCounts) {
    for (const LinkTimes& link : {LinkTimes{0, 0}, LinkTimes{100, 1}, LinkTimes{0, 20}}) {
      const TimedRing ring{.ranks = p, .tokens = 128, .link = link, .has_backward = true};
      CAPTURE(p, link.latency, link.ns_per_byte);
      CHECK(last(times_of(ring)) == p * one + message(ring));
    }
  }
}

TEST_CASE("heads and tails end together in backward too", "[context_parallel][timing]") {
  for (const int p : {2, 4}) {
    for (const LinkTimes& link : kLinks) {
      const auto times = times_of({.ranks = p,
                                   .tokens = 128,
                                   .order = TokenOrder::head_tail,
                                   .is_causal = true,
                                   .link = link,
                                   .has_backward = true});
      CAPTURE(p, link.latency, link.ns_per_byte);
      CHECK(times == std::vector<double>(times.size(), times.front()));
    }
  }
}

}  // namespace
}  // namespace kernbench::test::context_parallel_times_test
