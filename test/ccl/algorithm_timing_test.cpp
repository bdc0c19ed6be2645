// Where nothing costs time but links, a kernel takes its closed form to the picosecond: the
// formulas of TIMING.md 3.2 written out by hand, and what the library says.
//
// Between SIPs alpha is 500 ns, between the PEs of a cube 50 ns; beta is 20 ps per byte (50 GB/s).

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/closed_form.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::algorithm_timing_test {
namespace {

constexpr Time kAlpha{500'000};
constexpr Time kPeAlpha{50'000};
constexpr Time kByte{20};  // beta

// Queues that never limit what is measured.
ccl::Config deep(std::string_view algorithm, std::string_view more = "slot: 16 MiB") {
  return ccl::Config::parse(fmt::format(
      "defaults: {{algorithm: {}, depth: 64, buffer_kind: sram, {}}}", algorithm, more));
}

// PEs of one cube, and nothing but their ports costs time.
Topology pe_links(int count) {
  Topology topology = free_topology();
  topology.name = "ports";
  topology.cube.pe_per_corner = count;
  topology.pe.tcm.capacity = 1 << 30;
  topology.cube.noc = {Bandwidth{50'000'000'000}, kPeAlpha / 2};
  return topology;
}

ccl::Config pe_ranks(std::string_view algorithm, int count) {
  return ccl::Config::parse(fmt::format(
      "defaults: {{algorithm: {}, depth: 16, slot: 1 MiB, world_size: {}}}", algorithm, count));
}

// f32 elements.
Time simulated(const Topology& topology, const ccl::Config& config, std::int64_t n_elem) {
  return KernelsUnderTest(topology, DPPolicy::on_one_pe(), config).run(n_elem);
}
std::optional<Time> form(const Topology& topology, const ccl::Config& config, std::int64_t n_elem) {
  return closed_form({topology, DPPolicy::on_one_pe(), n_elem, DType::f32, config});
}

void check(const Topology& topology, const ccl::Config& config, Bytes bytes, Time by_hand) {
  CAPTURE(config.algorithm_name(), name_of(topology.system.topology), topology.system.w,
          topology.system.h, config.world_size().value_or(0), bytes);
  CHECK(simulated(topology, config, bytes / 4) == by_hand);
  CHECK(form(topology, config, bytes / 4) == by_hand);
}

// Where pieces or shares overlap there is no form, but it takes no longer than without that, and no
// link can carry its bytes in less than `carried`.
void check_between(const Topology& topology, const ccl::Config& config, Bytes bytes, Time carried,
                   Time by_hand) {
  CAPTURE(config.algorithm_name(), name_of(topology.system.topology), topology.system.w,
          topology.system.h, bytes, carried.count(), by_hand.count());
  const Time took = simulated(topology, config, bytes / 4);
  CHECK(took >= carried);
  CHECK(took <= by_hand);
  CHECK_FALSE(form(topology, config, bytes / 4));
}

struct GridOfSips {
  SipTopology kind;
  int w;
  int h;

  int count() const { return w * h; }
  Topology links() const { return link_topology(kind, w, h); }
};

// Returns the grids through which a closed ring leads: with wrap-around all, else those with an
// even w h.
std::vector<GridOfSips> closed_rings() {
  std::vector<GridOfSips> grids;
  for (int p = 2; p <= 16; ++p) grids.push_back({SipTopology::ring_1d, p, 1});
  for (const auto& [w, h] :
       {std::pair{2, 2}, {2, 3}, {3, 2}, {3, 3}, {3, 4}, {5, 3}, {4, 4}, {1, 5}}) {
    grids.push_back({SipTopology::torus_2d, w, h});
    if (w > 1 && w * h % 2 == 0) grids.push_back({SipTopology::mesh_2d_no_wrap, w, h});
  }
  return grids;
}

TEST_CASE("a ring takes 2 (P - 1) alpha + 2 (P - 1)/P n beta", "[ccl][timing]") {
  for (const GridOfSips& grid : closed_rings()) {
    const int p = grid.count();
    for (const Bytes chunk : {4, 1000, 65536}) {
      check(grid.links(), deep("ring_allreduce"), p * chunk,
            2 * (p - 1) * kAlpha + 2 * (p - 1) * chunk * kByte);
    }
  }
}

// Pieces are passed on while the next are under way.
TEST_CASE("a ring whose chunks are cut in pieces overlaps them", "[ccl][timing]") {
  for (const GridOfSips& grid : closed_rings()) {
    const int p = grid.count();
    if (p == 2) continue;
    for (const auto& [pieces, piece] : {std::pair{2, 400}, {4, 4096}, {8, 16384}, {32, 16384}}) {
      const Time carried = 2 * (p - 1) * pieces * piece * kByte;
      check_between(grid.links(), deep("ring_allreduce", fmt::format("slot: {} B", piece)),
                    p * pieces * piece, std::max(carried, 2 * (p - 1) * kAlpha),
                    2 * (p - 1) * kAlpha * ((pieces + 3) / 4) + carried + piece * kByte);
    }
  }
}

TEST_CASE("a ring used both ways takes 2 (P - 1) alpha + (P - 1)/P n beta", "[ccl][timing]") {
  for (const GridOfSips& grid : closed_rings()) {
    const int p = grid.count();
    for (const Bytes chunk : {4, 1000, 65536}) {
      const Bytes bytes = 2 * p * chunk;
      const Time expected = 2 * (p - 1) * kAlpha + (p - 1) * 2 * chunk * kByte;
      // Between two SIPs both ways lead over the same link.
      p == 2 ? check_between(grid.links(), deep("bidirectional_ring_allreduce"), bytes,
                             bytes * kByte, 2 * kAlpha + bytes * kByte)
             : check(grid.links(), deep("bidirectional_ring_allreduce"), bytes, expected);
    }
  }
}

TEST_CASE(
    "a line takes 2 (P - 1) (alpha + n/P beta), both dimensions no longer one after the other",
    "[ccl][timing]") {
  for (const SipTopology kind : kGridTopologies) {
    for (int w = 1; w <= 16; ++w) {
      for (const int h : {1, 2, 3, 4}) {
        if (w * h < 2 || w * h > 16 || (kind == SipTopology::ring_1d && h > 1)) continue;
        for (const Bytes part : {4, 1000, 65536}) {
          const Topology topology = link_topology(kind, w, h);
          const Time one_by_one = 2 * (w + h - 2) * kAlpha + 2 * (w * h - 1) * part * kByte;
          w == 1 || h == 1 ? check(topology, deep("mesh_allreduce"), w * h * part, one_by_one)
                           : check_between(topology, deep("mesh_allreduce"), w * h * part,
                                           2 * (w + h - 2) * kAlpha, one_by_one);
        }
      }
    }
  }
}

TEST_CASE("an odd ring reached the shorter ways takes (P - 1) (alpha + n/P beta)",
          "[ccl][timing]") {
  for (const int p : {3, 5, 7, 9, 15}) {
    for (const Bytes chunk : {4, 1000, 65536}) {
      check(link_topology(SipTopology::ring_1d, p), deep("intercube_allreduce"), p * chunk,
            (p - 1) * (kAlpha + chunk * kByte));
    }
  }
}

TEST_CASE("an even ring takes P alpha, and carries (P - 1)/P n over each link", "[ccl][timing]") {
  for (const int p : {4, 6, 8, 16}) {
    for (const Bytes chunk : {8, 1000, 65536}) {
      check_between(link_topology(SipTopology::ring_1d, p), deep("intercube_allreduce"), p * chunk,
                    std::max(p * kAlpha, (p - 1) * chunk * kByte),
                    p * (kAlpha + chunk * kByte) + chunk * kByte);
    }
  }
}

TEST_CASE("a tree of h steps takes 2 h (alpha + m), and k - 1 messages more for k pieces",
          "[ccl][timing]") {
  for (const SipTopology kind : kGridTopologies) {
    for (const auto& [w, h] :
         {std::pair{2, 1}, {3, 1}, {4, 1}, {7, 1}, {16, 1}, {2, 2}, {3, 3}, {4, 3}, {4, 4}}) {
      if (kind == SipTopology::ring_1d && h > 1) continue;
      const int steps = w / 2 + h / 2;
      for (const auto& [pieces, piece] : {std::pair{1, 4}, {1, 1024}, {16, 1024}, {64, 1024}}) {
        const Topology topology = link_topology(kind, w, h);
        const auto config = deep("tree_allreduce", fmt::format("slot: {} B", piece));
        const Time m = piece * kByte;
        const Time one = 2 * steps * (kAlpha + m);
        // Four pieces go up at a time.
        pieces == 1 ? check(topology, config, piece, one)
                    : check_between(topology, config, pieces * piece, one + (pieces - 1) * m,
                                    one + (pieces / 4 + 1) * 3 * (kAlpha + 4 * m));
      }
    }
  }
}

TEST_CASE("a shift to the next in the ring takes alpha + n beta", "[ccl][timing]") {
  for (const GridOfSips& grid : closed_rings()) {
    for (const Bytes bytes : {4, 1000, 1 << 20}) {
      check(grid.links(), deep("hello_send"), bytes, kAlpha + bytes * kByte);
    }
  }
}

// Through a PE's port: before the first and after the last message.
Time load_and_store(Bytes bytes) {
  return 2 * (kPeAlpha / 2 + bytes * kByte);
}

// Other chunks are loaded and stored while the first and the last travel.
TEST_CASE("rank = PE: a ring takes at most its load, 2 (P - 1)(alpha + n/P beta), and its store",
          "[ccl][timing][rank_pe]") {
  for (int p = 2; p <= 16; ++p) {
    for (const Bytes chunk : {4, 1000, 65536}) {
      CAPTURE(p, chunk);
      const auto config = pe_ranks("ring_allreduce", p);
      const Time took = simulated(pe_links(16), config, p * chunk / 4);
      const Time travels = 2 * (p - 1) * (kPeAlpha + chunk * kByte);
      CHECK(took > travels);
      CHECK(took <= load_and_store(p * chunk) + travels);
      CHECK_FALSE(form(pe_links(16), config, p * chunk / 4));
    }
  }
}

TEST_CASE("rank = PE: a tree of 2^k takes 2 k (alpha + n beta), one of 2^k - 1 two alphas less",
          "[ccl][timing][rank_pe]") {
  for (int k = 1; k <= 4; ++k) {
    for (const Bytes bytes : {4, 1000, 65536}) {
      const Time tree = load_and_store(bytes) + 2 * k * (kPeAlpha + bytes * kByte);
      check(pe_links(16), pe_ranks("tree_allreduce", 1 << k), bytes, tree);
      if (k == 1) continue;
      check(pe_links(16), pe_ranks("tree_allreduce", (1 << k) - 1), bytes, tree - 2 * kPeAlpha);
    }
  }
}

TEST_CASE("rank = PE: a tree of any P takes at most 2 ceil(log2 P) (alpha + n beta)",
          "[ccl][timing][rank_pe]") {
  for (int p = 2; p <= 16; ++p) {
    int rounds = 0;
    while ((1 << rounds) < p) ++rounds;
    for (const Bytes bytes : {4, 1000, 65536}) {
      CAPTURE(p, bytes);
      const Time took = simulated(pe_links(16), pe_ranks("tree_allreduce", p), bytes / 4);
      CHECK(took <= load_and_store(bytes) + 2 * rounds * (kPeAlpha + bytes * kByte));
    }
  }
}

TEST_CASE("rank = PE: a shift takes its load, alpha + n beta, and its store",
          "[ccl][timing][rank_pe]") {
  for (int p = 2; p <= 16; ++p) {
    for (const Bytes bytes : {4, 1000, 65536}) {
      check(pe_links(16), pe_ranks("hello_send", p), bytes,
            load_and_store(bytes) + kPeAlpha + bytes * kByte);
    }
  }
}

// TIMING.md 3.2: alpha 500 ns, 50 GB/s, n = 1 MiB and 256 MiB, in ps.
TEST_CASE("the worked figures of the ring, both rings, the line, the grid and the chain",
          "[ccl][timing][exhaustive]") {
  constexpr Bytes kMiB = 1 << 20;
  const auto ring = [](int p) { return link_topology(SipTopology::ring_1d, p); };
  check(ring(4), deep("ring_allreduce"), kMiB, Time{34'457'280});
  check(ring(8), deep("ring_allreduce"), kMiB, Time{43'700'160});
  check(ring(16), deep("ring_allreduce"), kMiB, Time{54'321'600});
  check(ring(4), deep("bidirectional_ring_allreduce"), kMiB, Time{18'728'640});
  check(ring(8), deep("bidirectional_ring_allreduce"), kMiB, Time{25'350'080});
  check(ring(16), deep("bidirectional_ring_allreduce"), kMiB, Time{34'660'800});
  const Topology line = link_topology(SipTopology::mesh_2d_no_wrap, 16);
  check(line, deep("mesh_allreduce"), kMiB, Time{54'321'600});
  // "mesh, centre-root tree unpipelined": 8 (alpha + n beta), of one part.
  const Topology mesh = link_topology(SipTopology::mesh_2d_no_wrap, 4, 4);
  check(mesh, deep("tree_allreduce"), 1024, Time{8 * (500'000 + 20'480)});
  // At 256 MiB pieces overlap: between the time of the bytes alone and the form.
  const auto large = [&](Topology topology, std::string_view algorithm, Time bytes, Time worked) {
    topology.pe.tcm.capacity = 8 << 20;  // for messages that are small beside the tensor
    check_between(topology, deep(algorithm, "slot: 256 KiB"), 256 * kMiB, bytes,
                  worked + worked / 40);
  };
  large(ring(4), "ring_allreduce", Time{8'053'063'680}, Time{8'056'063'680});
  large(ring(16), "ring_allreduce", Time{10'066'329'600}, Time{10'081'329'600});
  large(ring(4), "bidirectional_ring_allreduce", Time{4'026'531'840}, Time{4'029'531'840});
  large(ring(16), "bidirectional_ring_allreduce", Time{5'033'164'800}, Time{5'048'164'800});
  // Lines and grids: near the bounds of TIMING.md 3.1, where one dimension after the other takes
  // 10,081, 10,072 and 5,039 us.
  large(line, "mesh_allreduce", Time{5'368'709'120}, Time{5'800'000'000});
  large(mesh, "mesh_allreduce", Time{3'355'443'200}, Time{4'800'000'000});
  large(link_topology(SipTopology::torus_2d, 4, 4), "intercube_allreduce", Time{2'516'582'400},
        Time{3'000'000'000});
}

// Over many depths, slots and sizes: how many had a form, and each time the form was the time.
int count_of_exact_forms(std::string_view algorithm, const std::vector<Topology>& topologies,
                         int ranks, std::string_view more, const DPPolicy& dp) {
  int known = 0;
  for (const int depth : {1, 2, 4, 8}) {
    for (const int slot : {64, 4096}) {
      const auto config = ccl::Config::parse(fmt::format(
          "defaults: {{algorithm: {}, depth: {}, slot: {} B, {}}}", algorithm, depth, slot, more));
      for (const Topology& topology : topologies) {
        for (const std::int64_t part : {1, 8, 64, 1000}) {
          const std::int64_t n_elem = 2 * part * (ranks == 0 ? topology.system.sip_count : ranks);
          const auto time = closed_form({topology, dp, n_elem, DType::f32, config});
          if (!time) continue;
          ++known;
          CAPTURE(algorithm, name_of(topology.system.topology), topology.system.w,
                  topology.system.h, ranks, depth, slot, n_elem);
          CHECK(*time == KernelsUnderTest(topology, dp, config).run(n_elem));
        }
      }
    }
  }
  return known;
}

TEST_CASE("wherever there is a closed form, it is the simulated time", "[ccl][timing]") {
  std::vector<Topology> sips;
  for (const SipTopology kind : kGridTopologies) {
    for (const int p : {1, 2, 3, 5, 8}) sips.push_back(link_topology(kind, p));
    for (const auto& [w, h] : {std::pair{2, 2}, {2, 3}, {3, 3}, {4, 2}}) {
      if (kind != SipTopology::ring_1d) sips.push_back(link_topology(kind, w, h));
    }
  }
  const auto count = [&](std::string_view algorithm) {
    int known =
        count_of_exact_forms(algorithm, sips, 0, "buffer_kind: sram", DPPolicy::on_one_pe());
    for (const int p : {1, 2, 3, 4, 7, 8, 16}) {
      known += count_of_exact_forms(algorithm, {pe_links(16)}, p, fmt::format("world_size: {}", p),
                                    DPPolicy::on_one_pe());
    }
    return known;
  };
  CHECK(count("intercube_allreduce") >= 50);
  CHECK(count("ring_allreduce") >= 100);
  CHECK(count("bidirectional_ring_allreduce") >= 50);
  CHECK(count("mesh_allreduce") >= 50);
  CHECK(count("tree_allreduce") >= 200);
  CHECK(count("hello_send") >= 200);
}

TEST_CASE("where every overhead counts, no algorithm is faster than its closed form",
          "[ccl][timing]") {
  for (const std::string name : {"default", "ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"}) {
    const auto topology = Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name));
    for (const std::string_view algorithm : kAllReduceAlgorithms) {
      for (const std::string_view more : {"depth: 8", "depth: 16, world_size: 8"}) {
        for (const std::int64_t n_elem : {48, 4800}) {
          const auto config =
              ccl::Config::parse(fmt::format("defaults: {{algorithm: {}, {}}}", algorithm, more));
          const auto time = form(topology, config, n_elem);
          CAPTURE(name, algorithm, more, n_elem);
          if (time) CHECK(*time < simulated(topology, config, n_elem));
        }
      }
    }
  }
}

TEST_CASE("there is no closed form where messages meet or wait", "[ccl][timing]") {
  const Topology line = link_topology(SipTopology::mesh_2d_no_wrap, 4);
  const Topology ring = link_topology(SipTopology::ring_1d, 4);
  for (const std::string_view algorithm :
       {"ring_allreduce", "bidirectional_ring_allreduce", "hello_send"}) {
    CHECK_FALSE(form(line, deep(algorithm), 4096));  // the ring is closed over all links
    CHECK(form(ring, deep(algorithm), 4096));
  }
  CHECK_FALSE(form(ring, deep("ring_allreduce", "slot: 64 B"), 4096));  // several pieces
  CHECK_FALSE(form(ring, deep("ring_allreduce"), 4097));                // of different sizes
  CHECK_FALSE(form(ring, deep("intercube_allreduce"), 4096));           // halves meet
  for (const std::string_view algorithm : kAllReduceAlgorithms) {
    CHECK_FALSE(form(ring, deep(algorithm), 0));
    // Several cubes; buffers behind another port; no other rank.
    Topology cubes = round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
    CHECK_FALSE(form(cubes, pe_ranks(algorithm, 4), 4096));
    CHECK_FALSE(form(pe_links(8), pe_ranks(algorithm, 1), 4096));
    CHECK_FALSE(
        form(pe_links(8), pe_ranks(algorithm, 8).with_buffer_kind(sim::BufferKind::sram), 4096));
  }
  CHECK_FALSE(form(pe_links(8), pe_ranks("bidirectional_ring_allreduce", 8), 4096));
  CHECK_FALSE(form(pe_links(8), pe_ranks("mesh_allreduce", 8), 4096));
  CHECK_FALSE(form(pe_links(8), pe_ranks("tree_allreduce", 6), 4096));
  // PEs that share a port of the HBM meet there.
  Topology shared = pe_links(8);
  CHECK(form(shared, pe_ranks("tree_allreduce", 8), 4096));
  shared.cube.hbm.bandwidth = Bandwidth{50'000'000'000};
  CHECK_FALSE(form(shared, pe_ranks("tree_allreduce", 8), 4096));
  shared.cube.hbm.channels = 8;
  CHECK(form(shared, pe_ranks("tree_allreduce", 8), 4096));
}

}  // namespace
}  // namespace kernbench::test::algorithm_timing_test
