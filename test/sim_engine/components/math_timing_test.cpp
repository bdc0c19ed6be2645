// Tests the time of PE_MATH's operations: by hand for 16 lanes, and against the formula for others.

#include "sim_engine/components/math_timing.h"

#include <catch2/catch.hpp>

#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::math_timing_test {

namespace {

// 16 lanes at 1 GHz; a different number of cycles for every kind.
Topology with_cycles() {
  Topology topology = overhead_topology();
  MathCycles& cycles = topology.pe.math_cycles;
  cycles[MathKind::add] = 2;
  cycles[MathKind::mul] = 3;
  cycles[MathKind::fma] = 4;
  cycles[MathKind::div] = 9;
  cycles[MathKind::compare] = 5;
  cycles[MathKind::move] = 6;
  cycles[MathKind::exp] = 7;
  cycles[MathKind::log] = 8;
  cycles[MathKind::sqrt] = 11;
  cycles[MathKind::rsqrt] = 12;
  cycles[MathKind::sigmoid] = 13;
  return topology;
}

std::int64_t cycles_of(MathOp op, std::int64_t count) {
  return math_cycles(with_cycles().pe, op, count);
}
std::int64_t cycles_of(AxisOp op, const AxisForm& form) {
  return math_cycles(with_cycles().pe, op, form);
}

// A kernel on one PE: what each command adds to its time when nothing else runs.
struct MathUnderTest {
  MachineUnderTest dut{with_cycles()};
  DeviceBuffer buffer = dut.buffer(kPe0, 4096);
  KernelUnderTest kernel{dut, kPe0};
  Tile a = kernel.run.load(buffer, 0, 160);
  Time before{0};

  MathUnderTest() {
    kernel.end();
    before = dut.now();
  }
  // Without the 15 ns from issue to unit.
  Time took(const Tile& result) {
    kernel.ready_at(result);
    return dut.now() - before - ns(15);
  }
};

}  // namespace

TEST_CASE("lanes take several elements of 16 bits where the machine says so", "[math][timing]") {
  Topology::Pe pe = with_cycles().pe;
  pe.math_f16_per_lane = 2;
  const auto cycles = [&](MathOp op, std::int64_t count, DType widest) {
    return math_cycles(pe, op, count, size_of(widest));
  };
  CHECK(cycles(MathOp::add, 33, DType::f16) == 2 * 2);
  CHECK(cycles(MathOp::add, 33, DType::bf16) == 2 * 2);
  CHECK(cycles(MathOp::add, 33, DType::f32) == 3 * 2);
  CHECK(cycles(MathOp::exp, 32, DType::f16) == 7);
  const AxisForm row{1, 64, 1};
  CHECK(math_cycles(pe, AxisOp::maximum, row, 2) == (2 + 5) * 5);
  CHECK(math_cycles(pe, AxisOp::transpose, row, 2) == 2 * 6);
  for (const AxisOp op : {AxisOp::sum, AxisOp::softmax}) {
    CHECK(math_cycles(pe, op, row, 2) == math_cycles(pe, op, row));
  }
}

TEST_CASE("a conversion takes the lanes of the wider type", "[math][timing]") {
  Topology topology = with_cycles();
  topology.pe.math_f16_per_lane = 2;
  MachineUnderTest dut{topology};
  KernelUnderTest kernel{dut, kPe0};
  const auto time_of = [&](const Tile& tile) {
    kernel.end();
    const Time before = dut.now();
    kernel.run.math(MathOp::add, tile, tile);
    kernel.end();
    return dut.now() - before;
  };
  const Tile narrow = kernel.run.ramp(DType::f16, 0, 320);
  const Time of_f16 = time_of(narrow);
  const Time of_f32 = time_of(kernel.run.ramp(DType::f32, 0, 320));
  CHECK(of_f32 - of_f16 == ns(2 * 10));
  const Time before = dut.now();
  const std::array operands{MathOperand{narrow, 0}};
  kernel.run.math(MathOp::convert, DType::f32, 320, operands);
  kernel.end();
  CHECK(dut.now() - before == of_f32 + ns(20 * (6 - 2)));
}

TEST_CASE("an element-wise operation takes its cycles for every lane's turn", "[math][timing]") {
  const std::vector<std::pair<MathOp, int>> per_element = {
      {MathOp::add, 2},         {MathOp::subtract, 2},  {MathOp::negate, 2},
      {MathOp::absolute, 2},    {MathOp::multiply, 3},  {MathOp::divide, 9},
      {MathOp::maximum, 5},     {MathOp::minimum, 5},   {MathOp::less, 5},
      {MathOp::less_equal, 5},  {MathOp::greater, 5},   {MathOp::greater_equal, 5},
      {MathOp::equal, 5},       {MathOp::not_equal, 5}, {MathOp::clamp, 5},
      {MathOp::exp, 7},         {MathOp::log, 8},       {MathOp::sqrt, 11},
      {MathOp::rsqrt, 12},      {MathOp::sigmoid, 13},  {MathOp::convert, 6},
      {MathOp::select, 6},      {MathOp::fma, 4},       {MathOp::bit_and, 2},
      {MathOp::bit_or, 2},      {MathOp::bit_xor, 2},   {MathOp::floor_divide, 9},
      {MathOp::remainder, 9},   {MathOp::floor, 6},     {MathOp::exp2, 7},
      {MathOp::log2, 8},        {MathOp::sin, 7},       {MathOp::cos, 7},
      {MathOp::erf, 7 + 12 * 4}};
  CHECK(per_element.size() == kMathOps.size());
  for (const auto& [op, cycles] : per_element) {
    INFO(name_of(op));
    CHECK(cycles_of(op, 0) == 0);
    CHECK(cycles_of(op, 1) == cycles);
    CHECK(cycles_of(op, 16) == cycles);
    CHECK(cycles_of(op, 17) == 2 * cycles);
    CHECK(cycles_of(op, 1000) == 63 * cycles);
  }
}

TEST_CASE("a reduction adds a tree over the lanes that hold a part of one result",
          "[math][timing]") {
  CHECK(cycles_of(AxisOp::sum, {1, 160, 1}) == (10 + 4) * 2);  // 16 lanes: 4 levels
  CHECK(cycles_of(AxisOp::maximum, {1, 160, 1}) == (10 + 4) * 5);
  CHECK(cycles_of(AxisOp::minimum, {1, 160, 1}) == (10 + 4) * 5);
  CHECK(cycles_of(AxisOp::sum, {10, 16, 1}) == (10 + 4) * 2);
  CHECK(cycles_of(AxisOp::sum, {20, 8, 1}) == (10 + 3) * 2);
  CHECK(cycles_of(AxisOp::sum, {1, 5, 32}) == (10 + 3) * 2);
  CHECK(cycles_of(AxisOp::sum, {80, 2, 1}) == (10 + 1) * 2);
  CHECK(cycles_of(AxisOp::sum, {160, 1, 1}) == 10 * 2);
  CHECK(cycles_of(AxisOp::sum, {1, 1, 1}) == 1 * 2);
  CHECK(cycles_of(AxisOp::sum, {4, 0, 4}) == 0);
}

TEST_CASE("softmax takes a maximum, a difference, exp, a sum and a quotient", "[math][timing]") {
  CHECK(cycles_of(AxisOp::softmax, {1, 160, 1}) ==
        (10 + 4) * 5 + 10 * 2 + 10 * 7 + (10 + 4) * 2 + 10 * 9);
  CHECK(cycles_of(AxisOp::softmax, {20, 8, 1}) ==
        (10 + 3) * 5 + 10 * 2 + 10 * 7 + (10 + 3) * 2 + 10 * 9);
  CHECK(cycles_of(AxisOp::softmax, {3, 0, 1}) == 0);
}

TEST_CASE("a transpose and a ramp move their elements, a broadcast is free", "[math][timing]") {
  CHECK(cycles_of(AxisOp::transpose, {1, 10, 16}) == 10 * 6);
  CHECK(cycles_of(AxisOp::ramp, {1, 17, 1}) == 2 * 6);
  CHECK(cycles_of(AxisOp::broadcast, {1, 10, 16}) == 0);
}

TEST_CASE("commands of one, two and three operands occupy PE_MATH for their cycles",
          "[pe][math][timing]") {
  MathUnderTest m;
  const auto math = [&](MathOp op, std::vector<MathOperand> operands) {
    return m.took(m.kernel.run.math(op, DType::f32, 160, operands));
  };
  SECTION("one") {
    CHECK(math(MathOp::exp, {{m.a}}) == ns(70));
  }
  SECTION("a number is an operand that takes no time") {
    CHECK(math(MathOp::multiply, {{m.a}, {{}, 2}}) == ns(30));
  }
  SECTION("three") {
    CHECK(math(MathOp::fma, {{m.a}, {m.a}, {{}, 1}}) == ns(40));
  }
  SECTION("a constant is written") {
    CHECK(math(MathOp::convert, {{{}, 1}}) == ns(60));
  }
  SECTION("a sum") {
    CHECK(m.took(m.kernel.run.along_axis(AxisOp::sum, m.a, {10, 16, 1})) == ns(28));
  }
  SECTION("a ramp") {
    CHECK(m.took(m.kernel.run.ramp(DType::f32, 0, 33)) == ns(18));
  }
  SECTION("an operand that is broadcast") {
    const Tile row = m.kernel.run.slice(m.a, 0, 16);
    const Tile rows = m.kernel.run.broadcast(row, {1, 10, 16});
    CHECK(m.took(m.kernel.run.math(MathOp::add, m.a, rows)) == ns(20));
  }
}

TEST_CASE("an operation waits for each of its three operands", "[pe][math][timing]") {
  const std::size_t late = GENERATE(0U, 1U, 2U);
  MathUnderTest m;
  const Tile slow = m.kernel.run.math(MathOp::divide, m.a, m.a);  // until 10 + 5 + 90 ns
  std::vector<MathOperand> operands(3, {m.a});
  operands[late].tile = slow;
  const Tile result = m.kernel.run.math(MathOp::fma, DType::f32, 160, operands);
  m.kernel.ready_at(result);
  CHECK(m.dut.now() - m.before == ns(10 + 5 + 90) + ns(5 + 40));
}

TEST_CASE("results take scratch, numbers and broadcasts do not", "[pe][math]") {
  MathUnderTest m;
  const Bytes before = m.dut.machine.pe(kPe0).scratch_in_use();
  const Tile rows = m.kernel.run.broadcast(m.a, {1, 100, 160});
  CHECK(m.dut.machine.pe(kPe0).scratch_in_use() == before);
  const Tile sum = m.kernel.run.along_axis(AxisOp::sum, rows, {100, 160, 1});
  CHECK(m.dut.machine.pe(kPe0).scratch_in_use() == before + 400);
  m.kernel.end();
}

TEST_CASE("the op log and the fingerprint see math by what it makes", "[pe][math]") {
  MathUnderTest m;
  const std::array operands{MathOperand{m.a}};
  const Tile half = m.kernel.run.math(MathOp::convert, DType::f16, 160, operands);
  m.kernel.end();
  const CommandLog& log = m.dut.machine.op_log();
  REQUIRE(log.size() == 2);
  CHECK(log[1].kind == OpKind::math);
  CHECK(log[1].dtype == DType::f16);
  CHECK(log[1].bytes == 320);
  CHECK(log[1].end - log[1].start == ns(60));
}

}  // namespace kernbench::sim::math_timing_test
