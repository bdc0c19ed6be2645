#include "sim_engine/values/memory_store.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>

#include "sim_engine/base/check.h"
#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::memory_store_test {

namespace {

struct StoreUnderTest : ExecutorUnderTest {
  Value count_up(std::int64_t count, float first = 0) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
    return store.literal(DType::f32, values);
  }
  RegionId region_of(const Value& value) {
    const RegionId region = store.create_region(value.dtype(), value.element_count());
    store.store(region, 0, value);
    return region;
  }
};

}  // namespace

TEST_CASE("what was never written reads as quiet NaN", "[memory_store]") {
  StoreUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const RegionId region = dut.store.create_region(dtype, 4);
  dut.store.store(region, 1, dut.store.constant(dtype, 2, 5));
  const Elements read = dut.elements(dut.store.load(region, 0, 4));
  CHECK(std::isnan(read[0]));
  CHECK(read[1] == 5);
  CHECK(read[2] == 5);
  CHECK(std::isnan(read[3]));
}

TEST_CASE("a load of exactly one stored value returns that very value", "[memory_store]") {
  StoreUnderTest dut;
  const RegionId region = dut.store.create_region(DType::f32, 8);
  const Value value = dut.count_up(4);
  dut.store.store(region, 2, value);
  CHECK(dut.store.load(region, 2, 4).same_as(value));
  CHECK_FALSE(dut.store.load(region, 2, 3).same_as(value));
  CHECK_FALSE(dut.store.load(region, 1, 4).same_as(value));
  dut.store.store(region, 4, dut.count_up(1));
  CHECK_FALSE(dut.store.load(region, 2, 4).same_as(value));
}

TEST_CASE("an overwritten region leaves what was loaded before as it was", "[memory_store]") {
  StoreUnderTest dut;
  const RegionId region = dut.region_of(dut.count_up(4));
  const Value whole = dut.store.load(region, 0, 4);
  const Value part = dut.store.load(region, 1, 2);
  dut.store.store(region, 0, dut.store.constant(DType::f32, 4, 9));
  const Value later = dut.store.load(region, 0, 4);
  dut.store.destroy_region(region);
  CHECK(dut.elements(whole) == Elements{0, 1, 2, 3});
  CHECK(dut.elements(part) == Elements{1, 2});
  CHECK(dut.elements(later) == Elements{9, 9, 9, 9});
}

TEST_CASE("a load over several stores is put together from their pieces", "[memory_store]") {
  StoreUnderTest dut;
  const RegionId region = dut.region_of(dut.count_up(10));
  dut.store.store(region, 2, dut.count_up(3, 100));
  dut.store.store(region, 4, dut.count_up(2, 200));
  CHECK(dut.elements(dut.store.load(region, 0, 10)) ==
        Elements{0, 1, 100, 101, 200, 201, 6, 7, 8, 9});
  CHECK(dut.elements(dut.store.load(region, 3, 4)) == Elements{101, 200, 201, 6});
}

TEST_CASE("pieces that follow each other in one value become one again", "[memory_store]") {
  StoreUnderTest dut;
  const Value value = dut.count_up(6);
  const RegionId source = dut.region_of(value);
  const RegionId target = dut.store.create_region(DType::f32, 6);
  for (const std::int64_t begin : {4, 0, 2}) {
    dut.store.store(target, begin, dut.store.load(source, begin, 2));
  }
  CHECK(dut.store.load(target, 0, 6).same_as(value));
  dut.store.store(target, 0, dut.store.load(source, 2, 2));
  CHECK(dut.elements(dut.store.load(target, 0, 6)) == Elements{2, 3, 2, 3, 4, 5});
}

TEST_CASE("pieces of equal constants are one constant", "[memory_store]") {
  StoreUnderTest dut;
  const RegionId region = dut.region_of(dut.store.constant(DType::f16, 4, 1));
  dut.store.store(region, 1, dut.store.constant(DType::f16, 2, 1));
  CHECK(dut.store.load(region, 0, 4).node()->kind == ValueKind::constant);
  CHECK(dut.elements(dut.store.load(region, 0, 3)) == Elements{1, 1, 1});
  dut.store.store(region, 1, dut.store.constant(DType::f16, 2, -0.0f));
  dut.store.store(region, 3, dut.store.constant(DType::f16, 1, 0.0f));
  const Elements zeros = dut.elements(dut.store.load(region, 1, 3));
  CHECK(std::signbit(zeros[1]));
  CHECK_FALSE(std::signbit(zeros[2]));
}

TEST_CASE("literals and constants are rounded once to the type", "[memory_store]") {
  StoreUnderTest dut;
  const Elements given = {2049, 1, 65520};
  CHECK(dut.elements(dut.store.literal(DType::f16, given)) == Elements{2048, 1, INFINITY});
  CHECK(dut.elements(dut.store.literal(DType::bf16, given)) == Elements{2048, 1, 65536});
  CHECK(dut.elements(dut.store.literal(DType::f32, given)) == given);
  CHECK(dut.elements(dut.store.constant(DType::f16, 2, 2051)) == Elements{2052, 2052});
}

TEST_CASE("a destroyed region is not used again", "[memory_store]") {
  StoreUnderTest dut;
  const RegionId old = dut.region_of(dut.count_up(4));
  dut.store.destroy_region(old);
  const RegionId fresh = dut.store.create_region(DType::f16, 2);
  CHECK(fresh.index == old.index);
  CHECK(std::isnan(dut.elements(dut.store.load(fresh, 0, 2))[0]));
  CHECK(dut.store.dtype(fresh) == DType::f16);
  CHECK(dut.store.element_count(fresh) == 2);
  CHECK_THROWS_AS(dut.store.load(old, 0, 1), InternalError);
  CHECK_THROWS_AS(dut.store.store(old, 0, dut.count_up(1)), InternalError);
  CHECK_THROWS_AS(dut.store.element_count(old), InternalError);
  CHECK_THROWS_AS(dut.store.destroy_region(old), InternalError);
  CHECK_THROWS_AS(dut.store.dtype(RegionId{}), InternalError);
}

TEST_CASE("ranges, types and counts that do not fit are our own faults", "[memory_store]") {
  const bool data = GENERATE(true, false);
  MemoryStore store(data);
  const RegionId region = store.create_region(DType::f32, 4);
  CHECK_THROWS_AS(store.load(region, 0, 5), InternalError);
  CHECK_THROWS_AS(store.load(region, -1, 1), InternalError);
  CHECK_THROWS_AS(store.load(region, 5, 0), InternalError);
  CHECK_THROWS_AS(store.load(region, 1, INT64_MAX), InternalError);
  CHECK_THROWS_AS(store.store(region, 3, store.constant(DType::f32, 2, 0)), InternalError);
  CHECK_THROWS_AS(store.store(region, 0, store.constant(DType::f16, 2, 0)), InternalError);
  const Value two = store.constant(DType::f32, 2, 0);
  CHECK_THROWS_AS(store.math(MathOp::add, two, store.constant(DType::f32, 3, 0)), InternalError);
  CHECK_THROWS_AS(store.math(MathOp::add, two, store.constant(DType::bf16, 2, 0)), InternalError);
  CHECK_THROWS_AS(store.bind(store.declare(DType::f32, 3), two), InternalError);
  CHECK_THROWS_AS(store.create_region(DType::f32, -1), InternalError);
}

TEST_CASE("values of another store are refused", "[memory_store]") {
  MemoryStore one(true);
  MemoryStore other(true);
  const Value foreign = other.constant(DType::f32, 1, 0);
  const Value own = one.constant(DType::f32, 1, 0);
  const RegionId region = one.create_region(DType::f32, 1);
  CHECK_THROWS_AS(one.math(MathOp::add, own, foreign), InternalError);
  CHECK_THROWS_AS(one.store(region, 0, foreign), InternalError);
  CHECK_THROWS_AS(one.store(region, 0, Value(DType::f32, 1)), InternalError);
}

TEST_CASE("values and regions may have no elements", "[memory_store]") {
  StoreUnderTest dut;
  const RegionId empty = dut.store.create_region(DType::f16, 0);
  const Value nothing = dut.store.load(empty, 0, 0);
  CHECK(nothing.dtype() == DType::f16);
  CHECK(nothing.element_count() == 0);
  dut.store.store(empty, 0, nothing);
  CHECK(dut.elements(dut.store.math(MathOp::add, nothing,
                                    dut.store.literal(DType::f16, std::span<const float>{})))
            .empty());
  dut.store.bind(dut.store.declare(DType::f16, 0), nothing);
  const RegionId region = dut.region_of(dut.count_up(3));
  dut.store.store(region, 3, dut.store.constant(DType::f32, 0, 7));
  dut.store.store(region, 1, dut.store.constant(DType::f32, 0, 7));
  CHECK(dut.store.load(region, 3, 0).element_count() == 0);
  CHECK(dut.elements(dut.store.load(region, 0, 3)) == Elements{0, 1, 2});
}

TEST_CASE("a timing-only store knows types and counts and keeps nothing", "[memory_store]") {
  MemoryStore store(false);
  CHECK_FALSE(store.has_data());
  const RegionId region = store.create_region(DType::bf16, 1000);
  const Value part = store.load(region, 10, 20);
  const Value sum = store.math(MathOp::add, part, store.constant(DType::bf16, 20, 1));
  store.store(region, 5, sum);
  const Value later = store.declare(DType::bf16, 20);
  store.bind(later, sum);
  for (const Value& value : {part, sum, later}) {
    CHECK(value.dtype() == DType::bf16);
    CHECK(value.element_count() == 20);
    CHECK(value.node() == nullptr);
  }
  CHECK(store.live_value_count() == 0);
  CHECK(store.live_bytes() == 0);
}

TEST_CASE("memory of what nobody refers to any more is freed", "[memory_store]") {
  StoreUnderTest dut;
  const RegionId region = dut.region_of(dut.count_up(100));
  CHECK(dut.store.live_value_count() == 1);
  CHECK(dut.store.live_bytes() == 400);
  {
    const Value part = dut.store.load(region, 0, 10);
    CHECK(dut.store.live_value_count() == 2);
  }
  CHECK(dut.store.live_value_count() == 1);
  dut.store.store(region, 0, dut.store.constant(DType::f32, 100, 0));
  CHECK(dut.store.live_value_count() == 1);
  CHECK(dut.store.live_bytes() == 0);
  dut.store.destroy_region(region);
  CHECK(dut.store.live_value_count() == 0);
}

TEST_CASE("a value may outlive its store", "[memory_store]") {
  std::optional<MemoryStore> store(std::in_place, true);
  const Value a = store->literal(DType::f32, Elements{1, 2});
  Value sum = store->math(MathOp::add, a, a);
  store.reset();
  CHECK(sum.element_count() == 2);
  sum = Value();  // the last but one; the sanitizer sees a leak or a use after free
}

TEST_CASE("a chain of a million values ends without recursion", "[memory_store][exhaustive]") {
  MemoryStore store(true);
  {
    Value chain = store.constant(DType::f32, 1, 1);
    for (int i = 0; i < 1'000'000; ++i) chain = store.math(MathOp::add, chain, chain);
    CHECK(store.live_value_count() == 1'000'001);
  }
  CHECK(store.live_value_count() == 0);
}

TEST_CASE("a value cut in slices and put together again is the same", "[memory_store][view]") {
  StoreUnderTest dut;
  MemoryStore& store = dut.store;
  const Value whole = store.literal(DType::f16, Elements{0, 1, 2, 3, 4, 5, 6});
  const Value first = store.slice(whole, 0, 3);
  const Value none = store.slice(whole, 3, 0);
  const Value rest = store.slice(whole, 3, 4);
  CHECK(store.concat(std::vector{first, none, rest}).same_as(whole));  // one stretch again
  CHECK(dut.elements(first) == Elements{0, 1, 2});
  CHECK(dut.elements(store.slice(rest, 1, 2)) == Elements{4, 5});
  CHECK(store.slice(whole, 0, 7).same_as(whole));
  CHECK(dut.elements(store.concat(std::vector{rest, first})) == Elements{3, 4, 5, 6, 0, 1, 2});
}

TEST_CASE("a view of what is known later shows it then", "[memory_store][view]") {
  StoreUnderTest dut;
  MemoryStore& store = dut.store;
  const Value later = store.declare(DType::f32, 4);
  const Value view = store.slice(later, 2, 2);
  const Value joined = store.concat(std::vector{view, store.constant(DType::f32, 1, 9)});
  store.bind(later, store.literal(DType::f32, Elements{1, 2, 3, 4}));
  CHECK(dut.elements(view) == Elements{3, 4});
  CHECK(dut.elements(joined) == Elements{3, 4, 9});
}

TEST_CASE("a slice beyond its value is refused", "[memory_store][view]") {
  MemoryStore store(true);
  const Value value = store.constant(DType::f32, 4, 1);
  CHECK_THROWS_AS(store.slice(value, 3, 2), InternalError);
  CHECK_THROWS_AS(store.slice(value, -1, 2), InternalError);
}

TEST_CASE("without data views are a type and a count", "[memory_store][view]") {
  MemoryStore store(false);
  const Value value = store.constant(DType::bf16, 8, 1);
  const Value joined = store.concat(std::vector{store.slice(value, 2, 3), value});
  CHECK(joined.element_count() == 11);
  CHECK(joined.dtype() == DType::bf16);
  CHECK(store.live_value_count() == 0);
}

}  // namespace kernbench::sim::memory_store_test
