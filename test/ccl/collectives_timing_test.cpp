// Where nothing costs time but links, the collectives take their closed forms (TIMING.md 3.2).
//
// Between SIPs alpha is 500 ns and a byte takes 20 ps (50 GB/s).

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <numeric>
#include <string_view>

#include "ccl/core/config.h"
#include "test/ccl/group_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::collectives_timing_test {
namespace {

constexpr Time kAlpha{500'000};
constexpr Time kByte{20};  // beta

// From the moment at which all members have their tensors to the last one's end.
using Program = std::function<void(const Member&, const Tensor& block, const Tensor& blocks)>;

// Times a collective of f32 tensors with `count` elements, and as many for each member, on one PE
// of each SIP.
Time time_of(const Topology& topology, std::vector<int> ranks, std::int64_t count,
             const Program& program, std::string_view algorithm = "auto") {
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(topology.system.sip_count));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  Time begin{0};
  Time end{0};
  const auto run = [&](const Member& m) {
    const Tensor block = m.torch.zeros({count}, {.dp = DPPolicy::on_one_pe()});
    const Tensor blocks = m.torch.zeros({m.size() * count}, {.dp = DPPolicy::on_one_pe()});
    begin = m.torch.engine().now();
    program(m, block, blocks);
    m.torch.ahbm.synchronize();
    end = std::max(end, m.torch.engine().now());
    return std::string();
  };
  const auto config = ccl::Config().with_algorithm(algorithm);
  run_group(topology, ranks, run, {.ccl = std::make_shared<const ccl::Config>(config)});
  return end - begin;
}

Topology ring(int p) {
  return link_topology(SipTopology::ring_1d, p);
}

// A message of more than 1 KiB, or of more than 2 KiB in two parts, goes to a posted receive.  It
// is posted when its kernel begins; the news of that is with the sender after the way back.
// Neighbours of the default group have queues with larger slots, and wait for nothing.
Time news(Bytes message, int hops = 1) {
  return message <= 2048 ? Time{0} : hops * kAlpha + 16 * kByte;
}

TEST_CASE("a message takes alpha + n beta, if it is large after the news of its receive",
          "[ccl][timing]") {
  for (const std::int64_t count : {1, 64, 256, 1024, 65536}) {
    for (const int to : {1, 2, 3}) {
      const Time took = time_of(ring(6), {}, count, [&](const Member& m, const Tensor& x, auto&) {
        if (m.rank == 0) m.torch.distributed.send(x, to);
        if (m.rank == to) m.torch.distributed.recv(x, 0);
      });
      CHECK(took == news(count * 4, to) + to * kAlpha + count * 4 * kByte);
    }
  }
}

// The shorter ways round: of an even number, the farthest block comes in halves from both sides.
Time half_round(int p, Bytes block) {
  return p / 2 * (kAlpha + block * kByte);
}

TEST_CASE("all_gather takes floor(P/2) (alpha + n/P beta)", "[ccl][timing]") {
  for (int p = 3; p <= 8; ++p) {
    for (const std::int64_t count : {2, 64, 256}) {
      const Time took =
          time_of(ring(p), {}, count, [](const Member& m, const Tensor& x, const Tensor& all) {
            m.torch.distributed.all_gather_into_tensor(all, x);
          });
      CAPTURE(p, count, took.count());
      if (p % 2 == 1) CHECK(took == half_round(p, count * 4));
      CHECK(took <= half_round(p, count * 4));
      CHECK(took >= std::max(p / 2 * kAlpha, (p - 1) * count * 2 * kByte));
    }
  }
}

TEST_CASE("reduce_scatter takes floor(P/2) (alpha + n/P beta)", "[ccl][timing]") {
  for (int p = 3; p <= 8; ++p) {
    for (const std::int64_t count : {2, 64, 256}) {
      const Time took =
          time_of(ring(p), {}, count, [](const Member& m, const Tensor& x, const Tensor& all) {
            m.torch.distributed.reduce_scatter_tensor(x, all);
          });
      CAPTURE(p, count, took.count());
      if (p % 2 == 1) CHECK(took == half_round(p, count * 4));
      CHECK(took <= half_round(p, count * 4) + count * 2 * kByte);
      CHECK(took >= std::max(p / 2 * kAlpha, (p - 1) * count * 2 * kByte));
    }
  }
}

TEST_CASE("all_reduce takes as long with every operation", "[ccl][timing]") {
  for (int p = 3; p <= 8; ++p) {
    const auto time_by = [&](ReduceOp op) {
      return time_of(ring(p), {}, 64, [&](const Member& m, const Tensor&, const Tensor& all) {
        m.torch.distributed.all_reduce(all, op);
      });
    };
    CHECK(time_by(ReduceOp::max) == time_by(ReduceOp::sum));
    CHECK(time_by(ReduceOp::product) == time_by(ReduceOp::sum));
  }
}

void broadcast_from_2(const Member& m, const Tensor& x, const Tensor&) {
  m.torch.distributed.broadcast(x, 2);
}

void reduce_to_2(const Member& m, const Tensor& x, const Tensor&) {
  m.torch.distributed.reduce(x, 2);
}

TEST_CASE("along a chain broadcast and reduce of one piece take floor(P/2) (alpha + n beta)",
          "[ccl][timing]") {
  for (int p = 3; p <= 8; ++p) {
    for (const std::int64_t count : {1, 64, 1024}) {
      const Time expected = p / 2 * (kAlpha + count * 4 * kByte);
      CHECK(time_of(ring(p), {}, count, broadcast_from_2, "broadcast:chain") == expected);
      CHECK(time_of(ring(p), {}, count, reduce_to_2, "reduce:chain") == expected);
      CHECK(time_of(ring(p), {}, count, broadcast_from_2) <= expected);
      CHECK(time_of(ring(p), {}, count, reduce_to_2) <= expected);
    }
  }
}

// Straight to each a message takes its one way, and over a tree for each member but the root, up to
// 16, the busiest link carries a share of the data.
TEST_CASE("broadcast and reduce in a full mesh take alpha + n beta, or n/(P-1) beta if n is large",
          "[ccl][timing]") {
  for (const int p : {4, 5, 8, 18}) {
    const Topology mesh = link_topology(SipTopology::full_mesh, p);
    CHECK(time_of(mesh, {}, 64, broadcast_from_2) == kAlpha + 64 * 4 * kByte);
    CHECK(time_of(mesh, {}, 64, reduce_to_2) == kAlpha + 64 * 4 * kByte);
    const std::int64_t count = 1 << 22;
    const Time share = count * 4 * kByte / std::min(p - 1, 16);
    for (const auto program : {broadcast_from_2, reduce_to_2}) {
      const Time took = time_of(mesh, {}, count, program);
      CHECK(took > share);
      CHECK(took < share * 11 / 10 + 8 * kAlpha);
    }
  }
}

TEST_CASE("a sub-group of neighbours is a line, whose ends are two links away from each other",
          "[ccl][timing]") {
  // SIPs 1, 2 and 3 of a ring of 6 are a line.  SIP 2 needs whatever passes through it.
  const std::int64_t count = 256;  // in one part
  const Time took =
      time_of(ring(6), {3, 1, 2}, count, [](const Member& m, const Tensor& x, const Tensor& all) {
        m.torch.distributed.all_gather_into_tensor(all, x, {.group = m.group});
      });
  CHECK(took == news(count * 4) + 2 * (kAlpha + count * 4 * kByte));
}

TEST_CASE("a large all_gather keeps its links busy", "[ccl][timing]") {
  Topology topology = ring(4);
  topology.pe.tcm.capacity = 1 << 21;  // segments of at most 13,107 B
  const std::int64_t count = 1 << 20;
  const Time took =
      time_of(topology, {}, count, [](const Member& m, const Tensor& x, const Tensor& all) {
        m.torch.distributed.all_gather_into_tensor(all, x);
      });
  const Time bytes = 3 * count * 2 * kByte;  // each way
  CHECK(took > bytes);
  INFO("took " << took.count() << " ps for " << bytes.count());
  CHECK(took.count() * 10 < bytes.count() * 15);
}

// A hop takes two times of a part at most, and a part what a link carries in three latencies.
TEST_CASE("a large broadcast or reduce from PE to PE keeps both directions busy", "[ccl][timing]") {
  Topology topology = ring(6);
  topology.pe.tcm.capacity = 1 << 21;
  const std::int64_t count = 1 << 20;
  const Time half = count * 2 * kByte;
  const Time filling = 2 * 5 * (kAlpha + 3 * kAlpha);
  const Time by_broadcast =
      time_of(topology, {}, count,
              [](const Member& m, const Tensor& x, auto&) { m.torch.distributed.broadcast(x, 0); });
  CHECK(by_broadcast > half);
  CHECK(by_broadcast < half + filling);
  const Time by_reduce = time_of(topology, {}, count, [](const Member& m, const Tensor& x, auto&) {
    m.torch.distributed.reduce(x, 0);
  });
  CHECK(by_reduce > half);
  CHECK(by_reduce < half + filling);
}

}  // namespace
}  // namespace kernbench::test::collectives_timing_test
