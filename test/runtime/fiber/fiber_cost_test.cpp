// Tests what a fiber costs its host: memory while parked, allocations while switching.
// (AddressSanitizer has costs of its own, so its build leaves this out.)

#include <catch2/catch.hpp>
#include <fstream>

#include "test/runtime/fiber/fiber_under_test.h"

#if !defined(KERNBENCH_ASAN)

#include "test/support/allocation_count.h"

namespace kernbench::runtime::fiber_cost_test {

namespace {

std::size_t resident_bytes() {
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * 4096;
}

}  // namespace

TEST_CASE("a parked fiber costs at most 9 KB, and 40,000 are no ceiling",
          "[fiber][scale][exhaustive]") {
  FibersUnderTest dut;
  const std::size_t count = 40'000;  // 80,000 mappings, were they all guarded
  const std::size_t before = resident_bytes();
  for (std::size_t i = 0; i < count; ++i) dut.scheduler.spawn("rank", [&] { dut.park(); });
  dut.engine.run();
  CHECK((resident_bytes() - before) / count <= 9'000);
  CHECK(dut.scheduler.stacks().guarded_count() <= 16'000);
  CHECK(dut.scheduler.live_count() == count);
}

TEST_CASE("a switch allocates nothing, a spawn of a warm scheduler neither", "[fiber]") {
  FibersUnderTest dut;
  const auto round = [&] {
    Fiber& fiber = dut.scheduler.spawn("rank", [&dut] {
      for (int i = 0; i < 100; ++i) dut.park();
    });
    dut.engine.step();
    for (int i = 0; i < 100; ++i) {
      dut.scheduler.wake(fiber);
      dut.engine.step();
    }
  };
  round();
  const std::size_t before = test::allocation_count;
  round();
  CHECK(test::allocation_count == before);
}

}  // namespace kernbench::runtime::fiber_cost_test

#endif
