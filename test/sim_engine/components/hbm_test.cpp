// A cube's HBM: its channels, divided into the slices that PEs have next to them.

#include <catch2/catch.hpp>
#include <deque>

#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::hbm_test {

namespace {

// `pes` PEs and `channels` of 8 GB/s each; only the HBM costs time.
Topology hbm_topology(int pes, int channels) {
  Topology topology = test::free_topology();
  topology.cube.pe_per_corner = pes;
  topology.cube.hbm.channels = channels;
  topology.cube.hbm.bandwidth = Bandwidth{8'000'000'000};
  topology.cube.hbm.latency = ns(10);
  return topology;
}

// When a load of 8000 B by each of `pes` from the HBM slice of `home`, all at once, is done.
Time load_time(const Topology& topology, const std::vector<int>& pes,
               const std::vector<int>& homes) {
  MachineUnderTest dut(topology);
  std::deque<KernelUnderTest> kernels;
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < pes.size(); ++i) {
    kernels.emplace_back(dut, PeLocation{0, 0, pes[i]});
    tiles.push_back(kernels.back().run.load(dut.buffer(PeLocation{0, 0, homes[i]}, 2000), 0, 2000));
  }
  dut.machine.engine().run();
  return dut.now();
}

}  // namespace

TEST_CASE("channels are divided into a slice per PE, several PEs share one where they are fewer",
          "[hbm][timing]") {
  // 8000 B at 8 GB/s are 1000 ns.
  CHECK(load_time(hbm_topology(4, 4), {0}, {0}) == ns(10 + 1000));  // a channel each
  CHECK(load_time(hbm_topology(4, 8), {0}, {0}) == ns(10 + 500));   // two channels each
  CHECK(load_time(hbm_topology(4, 32), {3}, {3}) == ns(10 + 125));
  CHECK(load_time(hbm_topology(4, 2), {0}, {0}) == ns(10 + 1000));  // half a channel's users
  CHECK(load_time(hbm_topology(4, 1), {3}, {3}) == ns(10 + 1000));
}

TEST_CASE("all PEs together get all channels, however many there are", "[hbm][timing]") {
  const int channels = GENERATE(1, 2, 4, 8, 16);
  CHECK(load_time(hbm_topology(4, channels), {0, 1, 2, 3}, {0, 1, 2, 3}) ==
        ns(10) + ns(4 * 1000) / channels);
}

TEST_CASE("a slice that several PEs share gives one of them all its channels", "[hbm][timing]") {
  Topology topology = hbm_topology(4, 8);
  topology.cube.hbm.slices = 2;  // of 4 channels for 2 PEs: 250 ns
  CHECK(Routing::hbm_slice_count(topology) == 2);
  CHECK(load_time(topology, {0}, {0}) == ns(10 + 250));
  CHECK(load_time(topology, {0, 1}, {0, 1}) == ns(10 + 2 * 250));
  CHECK(load_time(topology, {0, 2}, {0, 2}) == ns(10 + 250));
  topology.cube.hbm.slices = 1;
  CHECK(load_time(topology, {3}, {3}) == ns(10 + 125));
  CHECK(load_time(topology, {0, 1, 2, 3}, {0, 1, 2, 3}) == ns(10 + 4 * 125));
}

TEST_CASE("k streams on one slice share it, from wherever they come", "[hbm][timing]") {
  CHECK(load_time(hbm_topology(4, 4), {0, 1, 2}, {1, 1, 1}) == ns(10 + 3 * 1000));
  CHECK(load_time(hbm_topology(4, 4), {0, 1, 2}, {1, 1, 2}) == ns(10 + 2 * 1000));
  CHECK(load_time(hbm_topology(4, 2), {0, 1, 2, 3}, {0, 1, 2, 3}) == ns(10 + 2 * 1000));
}

TEST_CASE("transfers get a share of the peak, and a slice says which", "[hbm][timing]") {
  Topology topology = hbm_topology(4, 8);
  topology.cube.hbm.efficiency = {800'000};
  CHECK(Routing::hbm_slice(topology) == LinkSpec{Bandwidth{12'800'000'000}, ns(10)});
  CHECK(load_time(topology, {0}, {0}) == ns(10 + 625));
  CHECK(load_time(topology, {0, 1, 2}, {1, 1, 1}) == ns(10 + 3 * 625));
  topology.cube.hbm.bandwidth = Bandwidth::unlimited();
  CHECK(load_time(topology, {0}, {0}) == ns(10));
}

// Each PE loads from the PE four numbers on.  A slice of 184.32 GB/s serves two of them in turn,
// 43,403 ps each.  Two PEs of a corner load from one slice, four PEs from two, whose bytes come
// over the way into the corner: 31,250 ps for each.
TEST_CASE("in the machine `corners` it matters in which corners PEs lie",
          "[hbm][timing][corners]") {
  Topology topology = Topology::load("corners");
  topology.communication.packet = 0;
  const std::vector<int> pes = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<int> homes = {4, 5, 6, 7, 0, 1, 2, 3};
  const Time of_two = load_time(topology, pes, homes);
  topology.cube.corners = {"NW", "NE"};
  topology.cube.pe_per_corner = 4;
  CHECK(load_time(topology, pes, homes) - of_two == Time{4 * 31'250 - 2 * 43'403});
  topology.cube.corner = {};
  const Time without = load_time(topology, pes, homes);
  topology.cube.corners = {"NW", "NE", "SW", "SE"};
  topology.cube.pe_per_corner = 2;
  CHECK(load_time(topology, pes, homes) == without);
}

TEST_CASE("an unlimited channel stays unlimited in a slice", "[hbm][timing]") {
  Topology topology = hbm_topology(2, 8);
  topology.cube.hbm.bandwidth = Bandwidth::unlimited();
  CHECK(load_time(topology, {0, 1}, {0, 0}) == ns(10));
}

}  // namespace kernbench::sim::hbm_test
