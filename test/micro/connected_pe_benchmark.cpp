// Host memory of a PE that has queues and runs no kernel, in a ring of 1,024 SIPs of one PE.
//
// Limit: 2 KB, links and queues of its own included.

#include <malloc.h>

#include "benches/bench/inputs.h"
#include "sim_engine/components/machine.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace connected_pe_benchmark {
namespace {

constexpr double kLimitBytes = 2048;

// Joins each SIP's first PE with the next one's, both ways.
void connect_ring(sim::Machine& machine) {
  const int count = machine.topology().system.sip_count;
  for (int sip = 0; sip < count; ++sip) {
    const sim::PeLocation here{sip, 0, 0};
    const sim::PeLocation next{(sip + 1) % count, 0, 0};
    machine.connect({here, sim::Direction::global_east, next, sim::Direction::global_west}, {});
    machine.connect({next, sim::Direction::global_west, here, sim::Direction::global_east}, {});
  }
}

void connected_pe(benchmark::State& state) {
  const Topology topology = benches::load_topology("scale_1024");
  double bytes = 0;
  for (auto _ : state) {
    const std::size_t before = mallinfo2().uordblks;
    sim::Machine machine(topology, {});
    connect_ring(machine);
    bytes = static_cast<double>(mallinfo2().uordblks - before);
  }
  const int pes = topology.system.sip_count * topology.cube_count() * topology.pe_count();
  state.counters["bytes_per_pe"] = bytes / pes;
  state.counters["over_limit"] = bytes / pes / kLimitBytes;  // at most 1 is wanted
}

BENCHMARK(connected_pe)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace connected_pe_benchmark

}  // namespace kernbench::micro
