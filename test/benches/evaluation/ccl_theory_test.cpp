// ADR-0198: the theory of the all_reduce evaluation, by hand.

#include "benches/evaluation/ccl_theory.h"

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"

namespace kernbench::benches::ccl_theory_test {

namespace {

constexpr Time kNs{1'000};
constexpr Bytes kBytes = 96 << 10;  // 192 ns over UCIe, 1,536 ns over a link between SIPs

Time theory(const char* topology, Bytes bytes = kBytes) {
  return intercube_on_links(load_topology(topology), ccl::Root::center, bytes);
}

// The tree over 4 x 4 cubes has 4 steps, 28 ns each; the 8 PEs' chunks follow each other.
Time trees(int chunks) {
  return 2 * (4 * 28 * kNs + 192 * kNs + 3 * 192 * kNs / (8 * chunks));
}

}  // namespace

// 408 ns from centre cube to centre cube.
TEST_CASE("a ring takes 2 (P - 1) steps of half a P-th each way", "[evaluation]") {
  CHECK(theory("ring_1d_6") == trees(12) + 9 * (408 + 16) * kNs + (408 + 128) * kNs);
}

// In the row of two both halves share a link, which 768 ns keep busy longer than a message travels.
TEST_CASE("a torus takes the steps of its rows, then those of its columns", "[evaluation]") {
  CHECK(theory("torus_2d_2x3") ==
        trees(4) + 768 * kNs + (408 + 768) * kNs + 3 * (408 + 16) * kNs + (408 + 128) * kNs);
}

TEST_CASE("a mesh has lines, a P-th of the data in each step", "[evaluation]") {
  CHECK(theory("mesh_2d_no_wrap_2x3") ==
        trees(2) + 768 * kNs + (408 + 768) * kNs + 3 * (408 + 32) * kNs + (408 + 256) * kNs);
}

TEST_CASE("of few bytes the theory is the latency of all steps", "[evaluation]") {
  CHECK(theory("ring_1d_6", 0) == 8 * 28 * kNs + 10 * 408 * kNs);
}

TEST_CASE("one SIP has a tree alone, one cube an exchange alone", "[evaluation]") {
  Topology one_sip = load_topology("ring_1d_6");
  one_sip.system.sip_count = one_sip.system.w = 1;
  CHECK(intercube_on_links(one_sip, ccl::Root::center, 0) == 8 * 28 * kNs);
  const Topology one_cube = load_topology("zero_overhead");  // four SIPs in a ring
  CHECK(intercube_on_links(one_cube, ccl::Root::center, 0) == 6 * one_cube.system.sip_link.latency);
}

}  // namespace kernbench::benches::ccl_theory_test
