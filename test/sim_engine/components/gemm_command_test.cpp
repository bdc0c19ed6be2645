// PE_GEMM among the other units of a PE.

#include <catch2/catch.hpp>

#include "sim_engine/trace/trace_recorder.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::gemm_command_test {

namespace {

// overhead_topology() with an array of 4 x 4 at 1 GHz: a fold takes k + 6 ns.
Topology gemm_topology() {
  Topology topology = overhead_topology();
  topology.pe.gemm = {.rows = 4,
                      .columns = 4,
                      .dataflow = Dataflow::output_stationary,
                      .clock = Frequency{1'000'000'000}};
  return topology;
}

constexpr Time kIssue = ns(10);
constexpr Time kDispatch = ns(5);
// A load of 1000 B: dispatch, setup, translation, path, bytes.
constexpr Time kLoad = ns(5 + 20 + 3 + 53 + 50);

struct GemmUnderTest : ReadyKernel {
  GemmUnderTest() : ReadyKernel(gemm_topology()) {}

  Tile gemm(const GemmSize& size, const Tile& accumulator = {}) {
    return kernel.run.gemm(size, a, b, accumulator, DType::f32);
  }
};

}  // namespace

TEST_CASE("PE_GEMM takes the cycles of its array", "[pe][gemm][timing]") {
  GemmUnderTest pe;
  const Tile c = pe.gemm({16, 16, 16});
  pe.kernel.ready_at(c);
  CHECK(pe.since_start() == kIssue + kDispatch + ns(4 * 4 * (16 + 6)));
  CHECK(c->element_count == 256);
  CHECK(c->dtype == DType::f32);
}

TEST_CASE("a GEMM smaller than the array crosses the whole array", "[pe][gemm][timing]") {
  GemmUnderTest pe;
  pe.a = pe.kernel.run.slice(pe.a, 0, 1);
  pe.b = pe.kernel.run.slice(pe.b, 0, 1);
  pe.kernel.ready_at(pe.gemm({1, 1, 1}));
  CHECK(pe.since_start() == kIssue + kDispatch + ns(1 + 6));
}

TEST_CASE("PE_GEMM does one command at a time, in order", "[pe][gemm][timing]") {
  GemmUnderTest pe;
  const Tile first = pe.gemm({16, 16, 16});
  const Tile second = pe.gemm({16, 16, 16});
  pe.kernel.ready_at(first);
  CHECK(pe.since_start() == kIssue + kDispatch + ns(352));
  pe.kernel.ready_at(second);
  CHECK(pe.since_start() == kIssue + kDispatch + ns(2 * 352));
}

TEST_CASE("an accumulation waits for its accumulator, a dispatch apart", "[pe][gemm][timing]") {
  GemmUnderTest pe;
  const Tile first = pe.gemm({16, 16, 16});
  const Tile second = pe.gemm({16, 16, 16}, first);
  pe.kernel.ready_at(second);
  CHECK(pe.since_start() == kIssue + kDispatch + ns(352) + kDispatch + ns(352));
}

TEST_CASE("a load, a GEMM and MATH overlap", "[pe][gemm][timing]") {
  GemmUnderTest pe;
  const Tile product = pe.gemm({16, 16, 16});                    // issued at 10 ns
  const Tile sum = pe.kernel.run.math(MathOp::add, pe.a, pe.a);  // at 20 ns
  const Tile loaded = pe.kernel.run.load(pe.buffer, 2048, 250);  // at 30 ns
  pe.kernel.ready_at(sum);
  CHECK(pe.since_start() == 2 * kIssue + kDispatch + ns(16));
  pe.kernel.ready_at(loaded);
  CHECK(pe.since_start() == 3 * kIssue + kLoad);
  pe.kernel.ready_at(product);
  CHECK(pe.since_start() == kIssue + kDispatch + ns(352));
  CHECK(pe.kernel.run.outstanding() == 0);
}

TEST_CASE("a finished GEMM is in the op log, with how many products it has", "[pe][gemm][data]") {
  GemmUnderTest pe;
  pe.gemm({16, 16, 16});
  pe.kernel.end();
  const CommandLog& log = pe.dut.machine.op_log();
  CHECK(log.count(OpKind::gemm) == 1);
  const Time started = pe.start + kIssue + kDispatch;
  CHECK(log[2] ==
        OpRecord{OpKind::gemm, DType::f32, 0, started, started + ns(352), 1024, 16 * 16 * 16});
}

TEST_CASE("a product takes the place of an accumulator that nobody else has", "[pe][gemm]") {
  GemmUnderTest pe;
  const Bytes before = pe.dut.machine.pe(kPe0).scratch_in_use();
  const auto in_use = [&] { return pe.dut.machine.pe(kPe0).scratch_in_use() - before; };
  Tile sum = pe.gemm({16, 16, 16});
  CHECK(in_use() == 1024);
  SECTION("under way") {
    sum = pe.gemm({16, 16, 16}, sum);
    CHECK(in_use() == 1024);
    CHECK(pe.kernel.ready_at(sum) > Time{0});
    CHECK(in_use() == 1024);
  }
  SECTION("ready") {
    pe.kernel.end();
    sum = pe.gemm({16, 16, 16}, sum);
    CHECK(in_use() == 1024);
  }
  SECTION("but not of one that is referred to") {
    const Tile kept = sum;
    sum = pe.gemm({16, 16, 16}, sum);
    CHECK(in_use() == 2048);
  }
  SECTION("nor of one that a store is still to read") {
    pe.kernel.run.store(pe.buffer, 0, sum);
    sum = pe.gemm({16, 16, 16}, sum);
    CHECK(in_use() == 2048);
  }
  if (pe.kernel.run.outstanding() > 0) pe.kernel.end();
  sum = {};
  CHECK(in_use() == 0);
}

TEST_CASE("the trace has a track for PE_GEMM, with the sizes", "[pe][gemm][trace]") {
  MachineUnderTest dut(gemm_topology(), {.trace = true});
  KernelUnderTest kernel(dut, kPe0);
  const DeviceBuffer buffer = dut.buffer(kPe0, 4096);
  const Tile a = kernel.run.load(buffer, 0, 8);
  const Tile b = kernel.run.load(buffer, 0, 12);
  kernel.run.gemm({2, 3, 4}, a, b, {}, DType::f32);
  kernel.end();
  const std::string json = dut.machine.trace()->to_json();
  CHECK(json.find("cube0.pe0.gemm") != std::string::npos);
  CHECK(json.find("gemm [2, 4] x [4, 3]") != std::string::npos);
}

}  // namespace kernbench::sim::gemm_command_test
