// More of a resource never makes a product slower: a sample of products on random devices.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benches/gemm/gemm_run.h"
#include "test/support/pick.h"
#include "test/support/small_topology.h"

namespace kernbench::test::gemm_monotonic_test {
namespace {

using namespace benches;

// Devices of up to 4 x 4 cubes of up to 8 PEs, whose memories and links are drawn around those of
// default.yaml.
Topology draw_device(Pick& pick) {
  Topology topology = round_topology(SipTopology::ring_1d, 2, 1, 1 << pick(0, 2), 1 << pick(0, 2));
  topology.sip.ucie = {pick.gigabytes(64, 1024), Time{pick(0, 30) * 1000}};
  topology.cube.corners = {"NW", "SE"};
  topology.cube.pe_per_corner = 1 << pick(0, 2);
  topology.cube.noc = {pick.gigabytes(64, 512), Time{pick(0, 8) * 1000}};
  topology.cube.sram = {.capacity = Bytes{1} << pick(20, 24),
                        .bandwidth = pick.gigabytes(128, 2048),
                        .latency = Time{pick(0, 40) * 1000}};
  HbmSpec& hbm = topology.cube.hbm;
  hbm.channels = topology.pe_count();
  hbm.slices = pick(0, 1);
  hbm.bandwidth = pick.gigabytes(4, 64);
  hbm.efficiency.millionths = pick(500, 1000) * 1000;
  hbm.latency = Time{pick(0, 200) * 1000};
  auto& pe = topology.pe;
  pe.cpu_issue = pe.scheduler_dispatch = Time{pick(0, 4) * 1000};
  pe.dma_setup = Time{pick(0, 20) * 1000};
  pe.gemm = {.rows = 4 << pick(0, 3),
             .columns = 4 << pick(0, 3),
             .dataflow = static_cast<Dataflow>(pick(0, 2)),
             .clock = Frequency{pick(500, 2000) * std::int64_t{1'000'000}},
             .overlap = pick.coin()};
  pe.tcm.capacity = Bytes{1} << pick(16, 21);
  pe.tcm.bandwidth = pick.gigabytes(128, 1024);
  if (pick.coin()) pe.tcm.compute_bandwidth = pick.gigabytes(64, 2048);
  return topology;
}

// Evenly among the powers of two, then among the sizes up to the next one.
std::int64_t draw_side(Pick& pick) {
  const int power = 1 << pick(0, 9);
  return power + pick(0, power - 1);
}

struct Machine {
  Topology topology;
  gemm::GemmPlacement placement;

  friend bool operator==(const Machine& a, const Machine& b) {
    return a.topology == b.topology && a.placement.on == b.placement.on &&
           a.placement.pes == b.placement.pes;
  }
};

struct Change {
  const char* name;
  std::function<void(Machine&)> apply;
};

void twice(Bandwidth& bandwidth) {
  if (!bandwidth.is_unlimited()) bandwidth.per_second *= 2;
}

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"twice the PEs of a cube",
       [](Machine& m) { m.placement.pes = std::min(2 * m.placement.pes, m.topology.pe_count()); }},
      {"all cubes", [](Machine& m) { m.placement.on = gemm::GemmOn::sip; }},
      {"hbm", [](Machine& m) { twice(m.topology.cube.hbm.bandwidth); }},
      {"sram", [](Machine& m) { twice(m.topology.cube.sram.bandwidth); }},
      {"noc", [](Machine& m) { twice(m.topology.cube.noc.bandwidth); }},
      {"ucie", [](Machine& m) { twice(m.topology.sip.ucie.bandwidth); }},
      {"tcm", [](Machine& m) { twice(m.topology.pe.tcm.bandwidth); }},
      {"tcm of gemm", [](Machine& m) { twice(m.topology.pe.tcm.compute_bandwidth); }},
      {"gemm clock", [](Machine& m) { m.topology.pe.gemm.clock.per_second *= 2; }},
  };
  return all;
}

Time time_of(const Machine& machine, const sim::GemmSize& size) {
  RuntimeContext torch(machine.topology, {.data = false});
  return gemm::run_gemm(torch, {.size = size, .placement = machine.placement}).time;
}

struct Sample {
  int tried = 0;
  int slower = 0;  // by more than 1 %
  double worst = 1;
  std::string found = {};
};

// Products of at least `least` multiplications.
Sample try_changes(int products, std::int64_t least) {
  Pick pick(20'261'128);
  Sample sample;
  for (int i = 0; i < products;) {
    Machine machine{draw_device(pick),
                    {.on = pick.coin() ? gemm::GemmOn::cube : gemm::GemmOn::sip}};
    machine.placement.pes = std::min(1 << pick(0, 3), machine.topology.pe_count());
    const sim::GemmSize size{draw_side(pick), draw_side(pick), draw_side(pick)};
    if (size.m * size.n * size.k < least) continue;
    ++i;
    const Time before = time_of(machine, size);
    for (const Change& change : changes()) {
      Machine better = machine;
      change.apply(better);
      if (better == machine) continue;
      const double ratio = to_ns(time_of(better, size)) / to_ns(before);
      ++sample.tried;
      sample.worst = std::max(sample.worst, ratio);
      if (ratio <= 1.01) continue;
      ++sample.slower;
      sample.found +=
          fmt::format("{}: {} x {} x {} on={} pes={} {:.3f}\n", change.name, size.m, size.n, size.k,
                      name_of(machine.placement.on), machine.placement.pes, ratio);
    }
  }
  return sample;
}

}  // namespace

// A faster resource may make the estimate choose another tile, which is off by a little more.
TEST_CASE("more of a resource does not make a product slower", "[gemm][exhaustive]") {
  const Sample sample = try_changes(60, 1 << 16);
  INFO(sample.found << sample.tried << " changes, worst " << sample.worst);
  CHECK(sample.slower <= 1);
  CHECK(sample.worst < 1.02);
}

// A product that is over in less than a microsecond pays for each further cube that it is cut over.
TEST_CASE("more PEs make few small products slower, and none much", "[gemm][exhaustive]") {
  const Sample sample = try_changes(60, 1);
  INFO(sample.found << sample.tried << " changes, worst " << sample.worst);
  CHECK(sample.slower <= 10);
  CHECK(sample.worst < 1.5);
}

}  // namespace kernbench::test::gemm_monotonic_test
