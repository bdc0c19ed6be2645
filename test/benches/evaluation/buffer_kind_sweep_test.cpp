// ADR-0043: where the queues lie matters through the memory that they are written to and read from.

#include <catch2/catch.hpp>

#include "test/benches/evaluation/evaluation_under_test.h"

namespace kernbench::benches::buffer_kind_sweep_test {

TEST_CASE("queues in TCM are faster than in SRAM, and those faster than in HBM",
          "[evaluation][exhaustive]") {
  for (const std::int64_t n_elem : {128, 49'152}) {
    const auto latency = [&](sim::BufferKind kind) {
      return test::crit_ns({evaluation::kBufferKindTopology, n_elem, DType::f16, kind});
    };
    CHECK(latency(sim::BufferKind::tcm) < latency(sim::BufferKind::sram));
    CHECK(latency(sim::BufferKind::sram) < latency(sim::BufferKind::hbm));
  }
}

}  // namespace kernbench::benches::buffer_kind_sweep_test
