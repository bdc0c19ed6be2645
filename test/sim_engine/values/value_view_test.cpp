#include <catch2/catch.hpp>

#include "sim_engine/base/check.h"
#include "sim_engine/values/data_executor.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim::value_view_test {

namespace {

std::vector<float> read(MemoryStore& store, const Value& value) {
  std::vector<float> elements(static_cast<std::size_t>(value.element_count()));
  DataExecutor(store).read(value, elements);
  return elements;
}

}  // namespace

TEST_CASE("a value cut in slices and put together again is the same", "[memory_store][view]") {
  MemoryStore store(true);
  const Value whole = store.literal(DType::f16, std::vector<float>{0, 1, 2, 3, 4, 5, 6});
  const Value first = store.slice(whole, 0, 3);
  const Value none = store.slice(whole, 3, 0);
  const Value rest = store.slice(whole, 3, 4);
  CHECK(store.concat(std::vector{first, none, rest}).same_as(whole));  // one stretch again
  CHECK(read(store, first) == std::vector<float>{0, 1, 2});
  CHECK(read(store, store.slice(rest, 1, 2)) == std::vector<float>{4, 5});
  CHECK(store.slice(whole, 0, 7).same_as(whole));
  CHECK(read(store, store.concat(std::vector{rest, first})) ==
        std::vector<float>{3, 4, 5, 6, 0, 1, 2});
}

TEST_CASE("a view of what is known later shows it then", "[memory_store][view]") {
  MemoryStore store(true);
  const Value later = store.declare(DType::f32, 4);
  const Value view = store.slice(later, 2, 2);
  const Value joined = store.concat(std::vector{view, store.constant(DType::f32, 1, 9)});
  store.bind(later, store.literal(DType::f32, std::vector<float>{1, 2, 3, 4}));
  CHECK(read(store, view) == std::vector<float>{3, 4});
  CHECK(read(store, joined) == std::vector<float>{3, 4, 9});
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

}  // namespace kernbench::sim::value_view_test
