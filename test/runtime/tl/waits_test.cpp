// Tests what kernels and their commands have waited for, by cause.

#include <catch2/catch.hpp>

#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::waits_test {
namespace {

using sim::WaitCause;
using sim::Waits;
using tl::Direction;

constexpr Time ns(std::int64_t count) {
  return Time{count * 1000};
}

void no_kernel(tl::Context&, tl::Pointer) {}

// Loads so many bytes, twice.
PairUnderTest::Body loads_twice(std::int64_t bytes) {
  return [=](tl::Context& tl, tl::Pointer p) {
    tl.load(p, {bytes / 4}, DType::f32);
    tl.load(p, {bytes / 4}, DType::f32);
  };
}

Waits waits_of(const std::vector<std::pair<WaitCause, Time>>& causes) {
  Waits waits;
  for (const auto& [cause, time] : causes) waits[cause] = time;
  return waits;
}

TEST_CASE("a second load waits for the port of HBM and for the slower link behind it", "[waits]") {
  PairUnderTest pair;
  pair.run(loads_twice(2000), no_kernel);
  // 2000 B take 50 ns at HBM and 100 at the NoC, where the head arrives 50 later.
  const Waits waits = pair.torch.engine().waits(PairUnderTest::kFirst);
  CHECK(waits == waits_of({{WaitCause::hbm, ns(50)}, {WaitCause::link, ns(50)}}));
  CHECK(pair.torch.engine().waits(PairUnderTest::kSecond) == Waits());
  CHECK(pair.torch.engine().longest_waits() == waits);
  pair.run(loads_twice(4), no_kernel);
  CHECK(pair.torch.engine().longest_waits() ==
        waits_of({{WaitCause::hbm, Time{100}}, {WaitCause::link, Time{100}}}));
  CHECK(pair.torch.engine().waits(PairUnderTest::kFirst)[WaitCause::hbm] == ns(50) + Time{100});
}

TEST_CASE("descriptors wait for their channel of the DMA", "[waits]") {
  Topology topology = round_topology();
  topology.pe.dma_setup = ns(300);
  PairUnderTest pair({}, topology);
  pair.run(loads_twice(2000), no_kernel);
  CHECK(pair.torch.engine().longest_waits() == waits_of({{WaitCause::dma, ns(300)}}));
}

TEST_CASE("operations wait for PE_MATH", "[waits]") {
  Topology topology = round_topology();
  topology.pe.math_clock = Frequency{1'000'000'000};
  PairUnderTest pair({}, topology);
  pair.run(
      [](tl::Context& tl, tl::Pointer) {
        tl.zeros({100}, DType::f32);
        tl.zeros({100}, DType::f32);
      },
      no_kernel);
  CHECK(pair.torch.engine().longest_waits() == waits_of({{WaitCause::unit, ns(100)}}));
}

TEST_CASE("a kernel waits for scratch until a command that holds it has ended", "[waits]") {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 7000;
  PairUnderTest pair({.slot_bytes = 16}, topology);
  pair.run(loads_twice(4000), no_kernel);
  CHECK(pair.torch.engine().longest_waits() == waits_of({{WaitCause::scratch, ns(53 + 200)}}));
}

TEST_CASE("a sender waits for a credit or a posted receive, and a receiver for a message",
          "[waits]") {
  const bool copies = GENERATE(false, true);
  PairUnderTest pair({.depth = 1});
  Time begin{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer) {
        begin = pair.now();
        const tl::Tensor a = tl.zeros({5}, DType::f32);
        for (int i = 0; i < 2; ++i) {
          copies ? tl.send(Direction::east, a, tl::copy_to) : tl.send(Direction::east, a);
        }
      },
      [](tl::Context& tl, tl::Pointer) {
        for (int i = 0; i < 2; ++i) tl.recv(Direction::west, {5}, DType::f32);
      });
  const EngineView engine = pair.torch.engine();
  const Time last_sent = pair.send_times(begin).back();
  CHECK(last_sent > Time{0});
  CHECK(engine.waits(PairUnderTest::kFirst) ==
        waits_of({{copies ? WaitCause::receive : WaitCause::credit, last_sent}}));
  CHECK(engine.waits(PairUnderTest::kSecond) ==
        waits_of({{WaitCause::message, pair.recv_times(begin).back()}}));
  CHECK(engine.longest_waits().largest() == (copies ? WaitCause::receive : WaitCause::credit));
}

}  // namespace
}  // namespace kernbench::test::waits_test
