// ADR-0193: the theory of the all_reduce evaluation, by hand.

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"
#include "benches/evaluation/ccl_evaluation.h"

namespace kernbench::benches::ccl_theory_test {

namespace {

constexpr Time kNs{1'000};
constexpr Bytes kBytes = 63 << 10;  // 126 ns over UCIe, 1,008 ns over a link between SIPs

Time on_links(const Topology& topology, Bytes bytes) {
  return evaluation::time_on_links(topology, {}, *ccl::find_algorithm("intercube_allreduce"), bytes)
      .value();
}

Time theory(const char* topology, Bytes bytes = kBytes) {
  return on_links(load_topology(topology), bytes);
}

// The tree over 4 x 4 cubes has 4 steps, 28 ns each, in which a PE's chunk takes twice as long as
// its share of UCIe; then come the other chunks of the cube's 8 PEs.
Time trees(int chunks) {
  const Time chunk = 126 * kNs / (8 * chunks);
  return 2 * (4 * (28 * kNs + 252 * kNs / (8 * chunks)) + 126 * kNs - chunk);
}

// 408 ns from centre cube to centre cube.  A PE's share of all times of the plan is followed by
// those of the 7 others in the last time.
Time steps(int count, Time all, Time last) {
  return count * 408 * kNs + all / 8 + last * 7 / 8;
}

}  // namespace

// Links carry 5/6 of the data, in the last of 6 steps the half of a sixth.
TEST_CASE("a ring takes its steps and its links' load", "[evaluation]") {
  CHECK(theory("ring_1d_6") == trees(12) + steps(6, 840 * kNs, 84 * kNs));
}

// 12/18 in 4 steps, 4/18 in the last one.
TEST_CASE("a torus takes its diameter there and back", "[evaluation]") {
  CHECK(theory("torus_2d_2x3") == trees(18) + steps(4, 672 * kNs, 224 * kNs));
}

// 52/42 in 6 steps, 12/42 in the last one.
TEST_CASE("a mesh has lines, which carry all of the data", "[evaluation]") {
  CHECK(theory("mesh_2d_no_wrap_2x3") == trees(42) + steps(6, 1248 * kNs, 288 * kNs));
}

TEST_CASE("of few bytes the theory is the latency of all steps", "[evaluation]") {
  CHECK(theory("ring_1d_6", 0) == 8 * 28 * kNs + 6 * 408 * kNs);
}

TEST_CASE("one SIP has a tree alone, one cube an exchange alone", "[evaluation]") {
  Topology one_sip = load_topology("ring_1d_6");
  one_sip.system.sip_count = one_sip.system.w = 1;
  CHECK(on_links(one_sip, 0) == 8 * 28 * kNs);
  const Topology one_cube = load_topology("zero_overhead");  // four SIPs in a ring
  CHECK(on_links(one_cube, 0) == 4 * one_cube.system.sip_link.latency);
}

}  // namespace kernbench::benches::ccl_theory_test
