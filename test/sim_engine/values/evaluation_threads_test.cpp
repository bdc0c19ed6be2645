// Evaluation on several threads: the same bits as on one.

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <random>

#include "sim_engine/base/check.h"
#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::evaluation_threads_test {

namespace {

Elements fractions(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Elements elements(static_cast<std::size_t>(count));
  for (float& element : elements) {
    element = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000;
  }
  return elements;
}

std::vector<std::uint32_t> bits_of(const Elements& elements) {
  std::vector<std::uint32_t> bits;
  for (const float element : elements) bits.push_back(std::bit_cast<std::uint32_t>(element));
  return bits;
}

// Values of kSide x kSide elements, each made of earlier ones at random; the last joins them.
class RandomGraph {
 public:
  RandomGraph(MemoryStore& store, unsigned seed) : store_(store), random_(seed) {
    for (unsigned i = 0; i < 3; ++i) {
      values_.push_back(store_.literal(DType::f32, fractions(kSide * kSide, seed + i)));
    }
    for (int i = 0; i < 40; ++i) values_.push_back(next());
  }

  Value joined() {
    std::vector<Value> all(values_.end() - 12, values_.end());
    return store_.concat(all);
  }

 private:
  static constexpr std::int64_t kSide = 300;
  static constexpr std::int64_t kCount = kSide * kSide;

  const Value& any() { return values_[random_() % values_.size()]; }

  Value next() {
    constexpr GemmSize kSquare{kSide, kSide, kSide};
    switch (random_() % 7) {
      case 0:
        return bounded(store_.gemm(kSquare, any(), any(), Value{}, DType::f32));
      case 1:
        return bounded(store_.gemm(kSquare, any(), any(), any(), DType::f32));
      case 2:
        return store_.math(MathOp::multiply, any(), any());
      case 3:
        return store_.along_axis(AxisOp::softmax, any(), {kSide, kSide, 1});
      case 4:
        return store_.along_axis(AxisOp::transpose, any(), {1, kSide, kSide});
      case 5: {
        const Value row = store_.slice(any(), kSide, kSide);
        const Value rows = store_.along_axis(AxisOp::broadcast, row, {1, kSide, kSide});
        if (random_() % 2 == 0) values_.push_back(rows);  // wanted as such too
        return store_.math(MathOp::add, rows, any());
      }
      default:
        return store_.concat(
            std::array{store_.slice(any(), 0, 100), store_.slice(any(), 100, kCount - 100)});
    }
  }

  Value bounded(const Value& value) {
    const Value scaled =
        store_.math(MathOp::multiply, value, store_.constant(DType::f32, kCount, 1.0F / kSide));
    return store_.math(MathOp::sigmoid, DType::f32, std::array{scaled});
  }

  MemoryStore& store_;
  std::mt19937 random_;
  std::vector<Value> values_;
};

}  // namespace

TEST_CASE("random graphs have the same bits on any number of threads", "[executor][threads]") {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::vector<std::uint32_t> expected;
    for (const int threads : {1, 2, 3, 8}) {
      ExecutorUnderTest evaluation(threads);
      const Value joined = RandomGraph(evaluation.store, seed).joined();
      const std::vector<std::uint32_t> bits = bits_of(evaluation.elements(joined));
      if (threads == 1) expected = bits;
      INFO("seed " << seed << ", " << threads << " threads");
      CHECK(evaluation.executor.last_thread_count() == threads);
      CHECK(bits == expected);
      // All that is left is what was read.
      CHECK(evaluation.store.live_value_count() == 1);
      CHECK(evaluation.store.live_bytes() == joined.element_count() * 4);
    }
  }
}

TEST_CASE("one large product has the same bits on any number of threads", "[executor][threads]") {
  constexpr GemmSize kSize{700, 600, 900};
  std::vector<std::uint32_t> expected;
  for (const int threads : {1, 2, 5}) {
    ExecutorUnderTest evaluation(threads);
    const Value a = evaluation.store.literal(DType::f16, fractions(kSize.m * kSize.k, 1));
    const Value b = evaluation.store.literal(DType::f16, fractions(kSize.k * kSize.n, 2));
    const Value product = evaluation.store.gemm(kSize, a, b, Value{}, DType::bf16);
    const std::vector<std::uint32_t> bits = bits_of(evaluation.elements(product));
    if (threads == 1) expected = bits;
    CHECK(evaluation.executor.last_thread_count() == threads);
    CHECK(bits == expected);
  }
}

TEST_CASE("a read of little starts no threads, however many values it is", "[executor][threads]") {
  ExecutorUnderTest evaluation(8);
  Value sum = evaluation.store.literal(DType::f16, Elements(100, 1));
  CHECK(evaluation.elements(sum).front() == 1);
  CHECK(evaluation.executor.last_thread_count() == 1);
  for (int i = 0; i < 50'000; ++i) sum = evaluation.store.math(MathOp::maximum, sum, sum);
  CHECK(evaluation.elements(sum).front() == 1);
  CHECK(evaluation.executor.last_thread_count() == 1);
}

TEST_CASE("a value that was never bound is told before anything is computed",
          "[executor][threads]") {
  ExecutorUnderTest evaluation(4);
  constexpr GemmSize kSize{400, 400, 400};
  const Value a = evaluation.store.literal(DType::f16, Elements(400 * 400, 1));
  const Value product = evaluation.store.gemm(kSize, a, a, Value{}, DType::f32);
  const Value unbound = evaluation.store.declare(DType::f32, 400 * 400);
  const Value sum = evaluation.store.math(MathOp::add, product, unbound);
  Elements out(400 * 400);
  CHECK_THROWS_AS(evaluation.executor.read(sum, out), InternalError);
  CHECK(evaluation.executor.computed_count() == 0);
  CHECK(evaluation.elements(product).front() == 400);
}

}  // namespace kernbench::sim::evaluation_threads_test
