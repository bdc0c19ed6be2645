// ADR-0193: the theory of the all_reduce evaluation, by hand.

#include "benches/evaluation/ccl_theory.h"

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"

namespace kernbench::benches::ccl_theory_test {

namespace {

constexpr Time kNs{1'000};
constexpr Bytes kBytes = 63 << 10;  // 126 ns over UCIe, 1,008 ns over a link between SIPs

Time theory(const char* topology, Bytes bytes = kBytes) {
  return evaluation::intercube_on_links(load_topology(topology), ccl::Root::center, bytes);
}

// The tree over 4 x 4 cubes has 4 steps, 28 ns each; the 8 PEs' chunks follow each other.
Time trees(int chunks) {
  return 2 * (4 * 28 * kNs + 126 * kNs + 3 * 126 * kNs / (8 * chunks));
}

}  // namespace

// 408 ns from centre cube to centre cube.  Every link carries 5/6 of the data in 6 steps, 140 ns
// each.
TEST_CASE("a ring takes P steps of its links' load", "[evaluation]") {
  CHECK(theory("ring_1d_6") == trees(12) + 5 * (408 * kNs + 140 * kNs / 8) + (408 + 140) * kNs);
}

// 5/9 in 4 steps.
TEST_CASE("a torus takes its diameter there and back, all links as busy", "[evaluation]") {
  CHECK(theory("torus_2d_2x3") == trees(4) + 3 * (408 * kNs + 140 * kNs / 8) + (408 + 140) * kNs);
}

// 5/7 in 6 steps, 120 ns each.
TEST_CASE("a mesh has lines, which carry all of the data", "[evaluation]") {
  CHECK(theory("mesh_2d_no_wrap_2x3") == trees(2) + 5 * (408 + 15) * kNs + (408 + 120) * kNs);
}

TEST_CASE("of few bytes the theory is the latency of all steps", "[evaluation]") {
  CHECK(theory("ring_1d_6", 0) == 8 * 28 * kNs + 6 * 408 * kNs);
}

TEST_CASE("one SIP has a tree alone, one cube an exchange alone", "[evaluation]") {
  Topology one_sip = load_topology("ring_1d_6");
  one_sip.system.sip_count = one_sip.system.w = 1;
  CHECK(evaluation::intercube_on_links(one_sip, ccl::Root::center, 0) == 8 * 28 * kNs);
  const Topology one_cube = load_topology("zero_overhead");  // four SIPs in a ring
  CHECK(evaluation::intercube_on_links(one_cube, ccl::Root::center, 0) ==
        4 * one_cube.system.sip_link.latency);
}

}  // namespace kernbench::benches::ccl_theory_test
