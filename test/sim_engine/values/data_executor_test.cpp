#include "sim_engine/values/data_executor.h"

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim_engine/base/check.h"
#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::data_executor_test {

namespace {

using soft_float::canonical;

constexpr std::array kMathOps = {MathOp::add,           MathOp::subtract,   MathOp::multiply,
                                 MathOp::divide,        MathOp::maximum,    MathOp::minimum,
                                 MathOp::less,          MathOp::less_equal, MathOp::greater,
                                 MathOp::greater_equal, MathOp::equal,      MathOp::not_equal};

}  // namespace

TEST_CASE("arithmetic is exact, then rounded once to the type", "[executor][exhaustive]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const MathOp op = GENERATE(from_range(kMathOps));
  const soft_float::Format format = soft_float::format_of(dtype);
  std::mt19937 random(5);
  const Elements a = values_of(format, random_patterns(format, 100'000, random));
  const Elements b = values_of(format, random_patterns(format, 100'000, random));
  ExecutorUnderTest dut;
  const Elements result = dut.math(dtype, op, a, b);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    wrong += canonical(result[i]) != canonical(soft_float::math(dtype, op, a[i], b[i]));
  }
  CHECK(wrong == 0);
}

TEST_CASE("the f32 in between is not seen: f16 and bf16 sums are the nearest",
          "[executor][exhaustive]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const soft_float::Format format = soft_float::format_of(dtype);
  std::mt19937 random(6);
  const std::vector<std::uint32_t> a = random_patterns(format, 100'000, random);
  const std::vector<std::uint32_t> b = random_patterns(format, 100'000, random);
  ExecutorUnderTest dut;
  const Elements sums = dut.math(dtype, MathOp::add, values_of(format, a), values_of(format, b));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint32_t nearest = soft_float::math(format, MathOp::add, a[i], b[i]);
    wrong += canonical(sums[i]) != canonical(soft_float::value_of(format, nearest));
  }
  CHECK(wrong == 0);
}

TEST_CASE("signs of zero, infinities, NaN and subnormals are those of IEEE 754", "[executor]") {
  ExecutorUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const float inf = INFINITY;
  const float nan = NAN;
  const float tiny = dtype == DType::f16 ? 0x1p-24f : dtype == DType::bf16 ? 0x1p-133f : 0x1p-149f;
  const auto of = [&](MathOp op, float a, float b) {
    return canonical(dut.math(dtype, op, {a}, {b})[0]);
  };
  CHECK(of(MathOp::add, -0.0f, -0.0f) == canonical(-0.0f));
  CHECK(of(MathOp::add, -0.0f, 0.0f) == canonical(0.0f));
  CHECK(of(MathOp::subtract, 1.0f, 1.0f) == canonical(0.0f));
  CHECK(of(MathOp::subtract, inf, inf) == canonical(nan));
  CHECK(of(MathOp::add, nan, 1.0f) == canonical(nan));
  CHECK(of(MathOp::add, tiny, tiny) == canonical(2 * tiny));
  CHECK(of(MathOp::subtract, 3 * tiny, tiny) == canonical(2 * tiny));
  CHECK(of(MathOp::multiply, tiny, -0.25f) == canonical(-0.0f));
  CHECK(of(MathOp::divide, 1.0f, -0.0f) == canonical(-inf));
  CHECK(of(MathOp::divide, 0.0f, 0.0f) == canonical(nan));
  CHECK(of(MathOp::maximum, -0.0f, 0.0f) == canonical(0.0f));
  CHECK(of(MathOp::maximum, 0.0f, -0.0f) == canonical(0.0f));
  CHECK(of(MathOp::minimum, 0.0f, -0.0f) == canonical(-0.0f));
  CHECK(of(MathOp::maximum, nan, inf) == canonical(nan));
  CHECK(of(MathOp::minimum, -inf, nan) == canonical(nan));
}

TEST_CASE("a finite sum too large for f16 is an infinity", "[executor]") {
  ExecutorUnderTest dut;
  CHECK(dut.math(DType::f16, MathOp::add, {60000, 65504}, {60000, 8}) == Elements{INFINITY, 65504});
}

TEST_CASE("results do not depend on where in a value the elements lie", "[executor]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const MathOp op = GENERATE(from_range(kMathOps));
  const soft_float::Format format = soft_float::format_of(dtype);
  std::mt19937 random(8);
  constexpr std::int64_t kCount = 2500;  // more than two blocks
  const Elements a = values_of(format, random_patterns(format, kCount, random));
  const Elements b = values_of(format, random_patterns(format, kCount, random));
  ExecutorUnderTest dut;
  const std::vector<std::uint32_t> whole = canonical_bits(dut.math(dtype, op, a, b));
  const RegionId left = dut.store.create_region(dtype, kCount);
  const RegionId right = dut.store.create_region(dtype, kCount);
  dut.store.store(left, 0, dut.store.literal(dtype, a));
  dut.store.store(right, 0, dut.store.literal(dtype, b));
  for (const std::int64_t begin : {1, 3, 8, 1023, 1400}) {
    const std::int64_t count = kCount - begin - 5;
    const Value part =
        dut.store.math(op, dut.store.load(left, begin, count), dut.store.load(right, begin, count));
    const std::vector<std::uint32_t> bits = canonical_bits(dut.elements(part));
    CHECK(std::equal(bits.begin(), bits.end(), whole.begin() + begin));
  }
}

TEST_CASE("constants are operands like any other", "[executor]") {
  ExecutorUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Value two = dut.store.constant(dtype, 1500, 2);
  const Value three = dut.store.constant(dtype, 1500, 3);
  CHECK(dut.elements(two) == Elements(1500, 2));
  CHECK(dut.elements(dut.store.math(MathOp::multiply, two, three)) == Elements(1500, 6));
  const Value ones = dut.store.literal(dtype, Elements(1500, 1));
  CHECK(dut.elements(dut.store.math(MathOp::subtract, two, ones)) == Elements(1500, 1));
  const RegionId region = dut.store.create_region(dtype, 1502);
  dut.store.store(region, 0, ones);
  dut.store.store(region, 1500, dut.store.constant(dtype, 2, 7));
  Elements expected(1501, 1);
  expected.back() = 7;
  CHECK(dut.elements(dut.store.load(region, 0, 1501)) == expected);
}

TEST_CASE("operands that are still referred to keep their elements", "[executor]") {
  ExecutorUnderTest dut;
  const Value a = dut.store.literal(DType::f32, Elements{1, 2, 3});
  const Value twice = dut.store.math(MathOp::add, a, a);
  const Value thrice = dut.store.math(MathOp::add, twice, a);
  CHECK(dut.elements(thrice) == Elements{3, 6, 9});
  CHECK(dut.elements(twice) == Elements{2, 4, 6});
  CHECK(dut.elements(a) == Elements{1, 2, 3});
}

TEST_CASE("an operand that is seen through another value keeps its elements", "[executor]") {
  ExecutorUnderTest dut;
  const RegionId region = dut.store.create_region(DType::f32, 4);
  dut.store.store(region, 0, dut.store.literal(DType::f32, Elements{1, 2, 3, 4}));
  const Value part = dut.store.load(region, 1, 2);
  const Value sum = dut.store.math(MathOp::add, dut.store.load(region, 0, 2), part);
  const Value all = dut.store.math(MathOp::add, dut.store.load(region, 0, 4),
                                   dut.store.constant(DType::f32, 4, 10));
  dut.store.destroy_region(region);
  CHECK(dut.elements(all) == Elements{11, 12, 13, 14});
  CHECK(dut.elements(sum) == Elements{3, 5});
  CHECK(dut.elements(part) == Elements{2, 3});
}

TEST_CASE("a read computes what the value depends on and no more, once", "[executor]") {
  ExecutorUnderTest dut;
  const Value a = dut.store.literal(DType::f16, Elements{1, 2});
  const Value b = dut.store.math(MathOp::add, a, a);
  const Value c = dut.store.math(MathOp::multiply, b, b);
  const Value unrelated = dut.store.math(MathOp::subtract, b, a);
  CHECK(dut.computed_by_reading(a) == 0);
  CHECK(dut.computed_by_reading(c) == 2);
  CHECK(dut.computed_by_reading(c) == 0);
  CHECK(dut.computed_by_reading(b) == 0);
  CHECK(dut.computed_by_reading(unrelated) == 1);
}

TEST_CASE("reading one tile of a region computes that tile alone", "[executor]") {
  ExecutorUnderTest dut;
  const RegionId region = dut.store.create_region(DType::f32, 100);
  for (std::int64_t tile = 0; tile < 10; ++tile) {
    const Value value = dut.store.constant(DType::f32, 10, static_cast<float>(tile));
    dut.store.store(region, tile * 10, dut.store.math(MathOp::add, value, value));
  }
  CHECK(dut.computed_by_reading(dut.store.load(region, 30, 10)) == 1);
  CHECK(dut.computed_by_reading(dut.store.load(region, 55, 10)) == 3);  // two tiles, their join
}

TEST_CASE("what is computed frees its inputs, and the dead are freed with them", "[executor]") {
  ExecutorUnderTest dut;
  Value sum = dut.store.literal(DType::f16, Elements(1000, 1));
  for (int i = 0; i < 10; ++i) sum = dut.store.math(MathOp::add, sum, sum);
  CHECK(dut.store.live_value_count() == 11);
  CHECK(dut.elements(sum) == Elements(1000, 1024));
  CHECK(dut.store.live_value_count() == 1);
  CHECK(dut.store.live_bytes() == 2000);
  sum = Value();
  CHECK(dut.store.live_bytes() == 0);
}

TEST_CASE("a part that was read does not keep the whole alive", "[executor]") {
  ExecutorUnderTest dut;
  const RegionId region = dut.store.create_region(DType::f32, 1000);
  dut.store.store(region, 0, dut.store.literal(DType::f32, Elements(1000, 3)));
  const Value part = dut.store.load(region, 10, 2);
  dut.store.destroy_region(region);
  CHECK(dut.store.live_bytes() == 4000);
  CHECK(dut.elements(part) == Elements{3, 3});
  CHECK(dut.store.live_bytes() == 8);
}

TEST_CASE("a chain of a million additions is computed without recursion",
          "[executor][exhaustive]") {
  ExecutorUnderTest dut;
  const Value one = dut.store.literal(DType::f32, Elements{1, 2});
  Value chain = one;
  for (int i = 1; i < 1'000'000; ++i) chain = dut.store.math(MathOp::add, one, chain);
  CHECK(dut.elements(chain) == Elements{1'000'000, 2'000'000});
  CHECK(dut.store.live_value_count() == 2);
  CHECK(dut.store.live_bytes() == 16);
}

TEST_CASE("a placeholder becomes the value that it is bound to", "[executor]") {
  ExecutorUnderTest dut;
  const Value later = dut.store.declare(DType::f32, 3);
  const RegionId region = dut.store.create_region(DType::f32, 3);
  dut.store.store(region, 0, later);
  const Value sum = dut.store.math(MathOp::add, later, later);
  const Value twice = dut.store.math(MathOp::add, sum, sum);
  const Value part = dut.store.load(region, 1, 2);
  CHECK_THROWS_AS(dut.elements(later), InternalError);
  CHECK_THROWS_AS(dut.elements(sum), InternalError);
  CHECK_THROWS_AS(dut.elements(part), InternalError);
  dut.store.bind(later, dut.store.literal(DType::f32, Elements{1, 2, 3}));
  CHECK(dut.elements(twice) == Elements{4, 8, 12});
  CHECK(dut.elements(sum) == Elements{2, 4, 6});
  CHECK(dut.elements(later) == Elements{1, 2, 3});
  CHECK(dut.elements(part) == Elements{2, 3});
  CHECK_THROWS_AS(dut.store.bind(later, sum), InternalError);
  CHECK_THROWS_AS(dut.store.bind(sum, later), InternalError);
}

TEST_CASE("a value that depends on itself is found, not followed for ever", "[executor]") {
  ExecutorUnderTest dut;
  const Value a = dut.store.declare(DType::f32, 1);
  const Value b = dut.store.declare(DType::f32, 1);
  dut.store.bind(a, b);
  CHECK_THROWS_AS(dut.store.bind(b, a), InternalError);
  dut.store.bind(b, dut.store.math(MathOp::add, a, a));
  CHECK_THROWS_AS(dut.elements(a), InternalError);
  b.node()->inputs[0].node()->inputs = {};  // nothing else would ever free the cycle
}

TEST_CASE("long chains of placeholders and of parts cost little", "[executor]") {
  ExecutorUnderTest dut;
  constexpr std::size_t kLength = 100'000;
  std::vector<Value> aliases;
  for (std::size_t i = 0; i < kLength; ++i) aliases.push_back(dut.store.declare(DType::f32, 2));
  for (std::size_t i = kLength; i-- > 1;) dut.store.bind(aliases[i], aliases[i - 1]);
  const RegionId region = dut.store.create_region(DType::f32, 2);
  dut.store.store(region, 0, aliases.back());
  const Value part = dut.store.load(region, 1, 1);
  dut.store.bind(aliases.front(), dut.store.literal(DType::f32, Elements{4, 5}));
  CHECK(dut.elements(part) == Elements{5});
  int wrong = 0;
  for (std::size_t i = aliases.size(); i-- > 0;) wrong += dut.elements(aliases[i])[0] != 4;
  CHECK(wrong == 0);
  CHECK(dut.executor.computed_count() == 1);
}

TEST_CASE("reads that cannot be answered are our own faults", "[executor]") {
  MemoryStore timing_only(false);
  DataExecutor blind(timing_only);
  Elements out(2);
  CHECK_THROWS_AS(blind.read(timing_only.constant(DType::f32, 2, 1), out), InternalError);
  ExecutorUnderTest dut;
  CHECK_THROWS_AS(dut.executor.read(dut.store.constant(DType::f32, 3, 1), out), InternalError);
  CHECK_THROWS_AS(dut.executor.read(Value(DType::f32, 2), out), InternalError);
}

TEST_CASE("a library that flushes subnormals is found", "[executor]") {
  ExecutorUnderTest dut;
  const Value value = dut.store.constant(DType::f32, 1, 1);
  const unsigned saved = _mm_getcsr();
  for (const unsigned bit : {0x8000u, 0x0040u, 0x2000u}) {
    _mm_setcsr(saved | bit);
    CHECK_THROWS_WITH(dut.elements(value), Catch::Contains("KB-N010"));
    _mm_setcsr(saved);
  }
  CHECK(dut.elements(value) == Elements{1});
}

namespace {

// Lets a region hold x + 1 + 1 ..., of one element or more.
void add_to_region(ExecutorUnderTest& dut, RegionId region, std::int64_t count, int times) {
  for (int i = 0; i < times; ++i) {
    const Value one = dut.store.constant(DType::f32, count, 1);
    dut.store.store(region, 0, dut.store.math(MathOp::add, dut.store.load(region, 0, count), one));
  }
}

RegionId make_zeros(ExecutorUnderTest& dut, std::int64_t count) {
  const RegionId region = dut.store.create_region(DType::f32, count);
  dut.store.store(region, 0, dut.store.constant(DType::f32, count, 0));
  return region;
}

}  // namespace

TEST_CASE("bound_memory computes what lies in regions when there are many nodes", "[executor]") {
  ExecutorUnderTest dut;
  const RegionId region = make_zeros(dut, 2);
  add_to_region(dut, region, 2, 1000);
  CHECK_FALSE(dut.executor.is_memory_to_be_bounded());
  dut.executor.bound_memory();
  CHECK(dut.executor.computed_count() == 0);  // few wait for a read
  constexpr int kTimes = DataExecutor::kFewNodes / 2;
  add_to_region(dut, region, 2, kTimes);
  CHECK(dut.executor.is_memory_to_be_bounded());
  dut.executor.bound_memory();
  CHECK(dut.executor.computed_count() == 1000 + kTimes);
  CHECK(dut.store.live_value_count() == 1);
  CHECK(dut.elements(dut.store.load(region, 0, 2)) == Elements(2, 1000 + kTimes));
}

TEST_CASE("what nobody reads and takes long to compute waits for many nodes", "[executor]") {
  ExecutorUnderTest dut(1);
  constexpr std::int64_t kElements = 1 << 14;  // some eight times the budget of a node
  const RegionId region = make_zeros(dut, kElements);
  constexpr int kTimes = DataExecutor::kFewNodes / 2;
  add_to_region(dut, region, kElements, kTimes + 1);
  dut.executor.bound_memory();
  const std::int64_t computed = dut.executor.computed_count();
  CHECK(computed > 0);
  CHECK(computed < kTimes / 2);
  CHECK_FALSE(dut.executor.is_memory_to_be_bounded());  // not until there are twice as many
  CHECK(dut.elements(dut.store.load(region, 0, kElements)) == Elements(kElements, kTimes + 1));
  CHECK(dut.executor.computed_count() == kTimes + 1);
}

TEST_CASE("bound_memory computes what refers to many bytes", "[executor]") {
  ExecutorUnderTest dut(1);
  constexpr std::int64_t kElements = 1 << 20;
  const RegionId sum = make_zeros(dut, kElements);
  const Elements ones(kElements, 1);
  int added = 0;
  while (!dut.executor.is_memory_to_be_bounded()) {
    const Value given = dut.store.literal(DType::f32, ones);
    dut.store.store(sum, 0, dut.store.math(MathOp::add, dut.store.load(sum, 0, kElements), given));
    REQUIRE(++added <= DataExecutor::kFewBytes / (4 * kElements) + 1);
  }
  dut.executor.bound_memory();
  CHECK(dut.store.live_bytes() == 4 * kElements);
  CHECK(dut.elements(dut.store.load(sum, 0, kElements)).back() == static_cast<float>(added));
}

}  // namespace kernbench::sim::data_executor_test
