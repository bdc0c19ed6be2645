// Two PEs of one cube with a queue each way: pe0's east is pe1, pe1's west is pe0.
//
// A message takes 6 ns (TCM 1, NoC 2 + 2, TCM 1) and its bytes at 20 GB/s; the credit 4 ns and 16
// B: 4.8 ns; a pop 2 ns and the bytes at 1000 GB/s.  A load from the own HBM takes 53 ns and its
// bytes at 20 GB/s.

#pragma once

#include <functional>
#include <string>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/components/processing_element.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

struct PairUnderTest {
  static constexpr sim::PeLocation kFirst{0, 0, 0};
  static constexpr sim::PeLocation kSecond{0, 0, 1};

  RuntimeContext torch;
  Tensor x;  // 4000 elements on each of the two PEs

  explicit PairUnderTest(const sim::IpcqParams& params = {}, Topology topology = round_topology())
      : torch(topology), x(torch.zeros({4000}, {.dp = {.num_cubes = 1}, .name = "x"})) {
    sim::Machine& machine = simulation_of(torch).machine();
    machine.connect({kFirst, tl::Direction::east, kSecond, tl::Direction::west}, params);
    machine.connect({kSecond, tl::Direction::west, kFirst, tl::Direction::east}, params);
  }

  using Body = std::function<void(tl::Context&, tl::Pointer)>;

  // A launch with one kernel for each PE.
  void run(const Body& first, const Body& second) {
    torch.launch(
        "pair",
        [&](tl::Context& tl, tl::Pointer own) { (tl.program_id() == 0 ? first : second)(tl, own); },
        x);
  }

  std::string device_error_of(const Body& first, const Body& second = {}) {
    return error_of<DeviceError>([&] {
      run(
          first, second ? second : [](tl::Context&, tl::Pointer) {});
    });
  }

  Time now() const { return torch.engine().now(); }
  // When each send left for its queue, after `begin`.
  std::vector<Time> send_times(Time begin) const { return start_times(sim::OpKind::send, begin); }
  // When PE_IPCQ took each message in.
  std::vector<Time> recv_times(Time begin) const { return start_times(sim::OpKind::recv, begin); }
  std::vector<Time> start_times(sim::OpKind kind, Time begin) const {
    std::vector<Time> times;
    for (const sim::OpRecord& op : torch.engine().op_log()) {
      if (op.kind == kind) times.push_back(op.start - begin);
    }
    return times;
  }
  int credits(int from) {
    sim::ProcessingElement& pe = simulation_of(torch).machine().pe(from == 0 ? kFirst : kSecond);
    return pe.ipcq().out(from == 0 ? tl::Direction::east : tl::Direction::west)->credits();
  }
};

// The first PE's kernel: so many messages of so many elements to the second.
inline PairUnderTest::Body sends(int count, std::int64_t elements = 4) {
  return [=](tl::Context& tl, tl::Pointer p) {
    for (int i = 0; i < count; ++i)
      tl.send(tl::Direction::east, tl.load(p, {elements}, DType::f32));
  };
}
// The second PE's.
inline PairUnderTest::Body receives(int count, std::int64_t elements = 4) {
  return [=](tl::Context& tl, tl::Pointer p) {
    for (int i = 0; i < count; ++i)
      tl.store(p, tl.recv(tl::Direction::west, {elements}, DType::f32));
  };
}

}  // namespace kernbench::test
