// Events through the real component path: every PE of six SIPs has a message under way, to a PE of
// its own cube, of another cube, of another SIP, and to memory, in turn.
//
// Limit: 6 M events/s (DESIGN.md 9).

#include <vector>

#include "benches/bench/inputs.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/core/engine.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace component_path_benchmark {
namespace {

constexpr double kLimit = 6e6;
constexpr Bytes kMessage = 4096;

class Storm {
 public:
  explicit Storm(const Topology& topology) : fabric_(engine_, topology, nullptr) {
    for (int sip = 0; sip < topology.system.sip_count; ++sip) {
      for (int cube = 0; cube < topology.cube_count(); ++cube) {
        for (int pe = 0; pe < topology.pe_count(); ++pe) add(topology, {sip, cube, pe});
      }
    }
    for (std::size_t i = 0; i < senders_.size(); ++i) send(i);
  }

  sim::Engine& engine() { return engine_; }

 private:
  struct Sender {
    std::vector<const sim::Path*> paths;
    std::size_t next = 0;
  };

  void add(const Topology& topology, const sim::PeLocation& at) {
    using Kind = sim::Endpoint::Kind;
    const sim::Endpoint own{Kind::tcm, at};
    const sim::PeLocation beside{at.sip, at.cube, (at.pe + 1) % topology.pe_count()};
    const sim::PeLocation far_cube{at.sip, (at.cube + 5) % topology.cube_count(), at.pe};
    const sim::PeLocation far_sip{(at.sip + 1) % topology.system.sip_count, at.cube, at.pe};
    Sender& sender = senders_.emplace_back();
    for (const sim::Endpoint& to : {sim::Endpoint{Kind::tcm, beside},
                                    {Kind::tcm, far_cube},
                                    {Kind::tcm, far_sip},
                                    {Kind::hbm, at}}) {
      sender.paths.push_back(&fabric_.path(own, to));
    }
  }

  void send(std::uint64_t index) {
    Sender& sender = senders_[index];
    const sim::Path& path = *sender.paths[sender.next++ % sender.paths.size()];
    fabric_.send(path, kMessage, sim::Engine::call<&Storm::send>(this, index));
  }

  sim::Engine engine_;
  sim::Fabric fabric_;
  std::vector<Sender> senders_;
};

void component_path(benchmark::State& state) {
  Storm storm(benches::load_topology("ring_1d_6"));
  for (int i = 0; i < 1'000'000; ++i) storm.engine().step();  // until queues have built up
  const RateMeter meter;
  for (auto _ : state) storm.engine().step();
  meter.report(state, static_cast<double>(state.iterations()), kLimit);
}
BENCHMARK(component_path);

}  // namespace
}  // namespace component_path_benchmark

}  // namespace kernbench::micro
