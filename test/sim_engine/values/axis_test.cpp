// Operations along an axis, against plain loops that share nothing with the evaluation.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim_engine/base/check.h"
#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::axis_test {

namespace {

using soft_float::canonical;

const std::vector<AxisForm>& forms() {
  static const std::vector<AxisForm> all = {{1, 1, 1},   {1, 15, 1},   {1, 16, 1},  {1, 17, 1},
                                            {1, 33, 1},  {1, 5000, 1}, {7, 31, 1},  {3, 1, 5},
                                            {2, 16, 3},  {2, 40, 7},   {1, 9, 65},  {1, 100, 64},
                                            {5, 2, 300}, {4, 3, 1},    {1, 1, 2000}};
  return all;
}

std::size_t index_of(const AxisForm& form, std::int64_t outer, std::int64_t i, std::int64_t inner) {
  return static_cast<std::size_t>((outer * form.length + i) * form.inner + inner);
}

// One line of elements along the axis.
Elements format_line(const Elements& elements, const AxisForm& form, std::int64_t outer,
                     std::int64_t inner) {
  Elements line;
  for (std::int64_t i = 0; i < form.length; ++i) {
    line.push_back(elements[index_of(form, outer, i, inner)]);
  }
  return line;
}

// Adds up in the order that AxisOp prescribes.
float sum_in_order(const Elements& line) {
  Elements partial;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (i < 16) {
      partial.push_back(line[i]);
    } else {
      partial[i % 16] += line[i];
    }
  }
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t j = 0; j + half < partial.size() && j < half; ++j)
      partial[j] += partial[j + half];
    if (partial.size() > half) partial.resize(half);
  }
  return partial[0];
}

float extreme(const Elements& line, MathOp op) {
  float found = line[0];
  for (const float x : line) found = soft_float::math(DType::f32, op, found, x);
  return found;
}

Elements random_elements(DType dtype, std::int64_t count, float scale) {
  std::mt19937 random(3);
  Elements elements;
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = (static_cast<float>(random()) * 0x1p-31F - 1) * scale;
    elements.push_back(soft_float::round_to(dtype, x));
  }
  return elements;
}

Elements iota(std::int64_t count) {
  Elements elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(static_cast<float>(i % 1000));
  return elements;
}

std::vector<std::uint32_t> reduced(const Elements& a, DType dtype, const AxisForm& form,
                                   float (*of)(const Elements&)) {
  std::vector<std::uint32_t> results;
  for (std::int64_t outer = 0; outer < form.outer; ++outer) {
    for (std::int64_t inner = 0; inner < form.inner; ++inner) {
      const float result = of(format_line(a, form, outer, inner));
      results.push_back(canonical(soft_float::round_to(dtype, result)));
    }
  }
  return results;
}

}  // namespace

TEST_CASE("a sum adds 16 partial sums in f32 and rounds once, wherever its axis lies",
          "[executor][axis]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  for (const AxisForm& form : forms()) {
    INFO(form.outer << " " << form.length << " " << form.inner);
    ExecutorUnderTest dut;
    const Elements a = random_elements(dtype, form.count_with_axis(), 10);
    CHECK(canonical_bits(dut.along_axis(dtype, AxisOp::sum, a, form)) ==
          reduced(a, dtype, form, sum_in_order));
  }
}

TEST_CASE("sums of integers are exact", "[executor][axis]") {
  ExecutorUnderTest dut;
  const Elements a = iota(4096);  // 0 to 999 four times, and 0 to 95
  const float all = 4 * 499'500 + 4560;
  CHECK(dut.along_axis(DType::f32, AxisOp::sum, a, {1, 4096, 1}) == Elements{all});
  CHECK(dut.along_axis(DType::f16, AxisOp::sum, Elements(2048, 1), {1, 2048, 1}) ==
        Elements{2048});  // in f16 the sums would stop growing at 2048, in f32 they do not
  CHECK(dut.along_axis(DType::f16, AxisOp::sum, Elements(4096, 1), {2, 2048, 1}) ==
        Elements{2048, 2048});
}

TEST_CASE("a sum's error is within its bound", "[executor][axis]") {
  for (const AxisForm& form : forms()) {
    ExecutorUnderTest dut;
    const Elements a = random_elements(DType::f32, form.count_with_axis(), 1);
    const Elements sums = dut.along_axis(DType::f32, AxisOp::sum, a, form);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      double exact = 0;
      double magnitude = 0;
      for (const float x : format_line(a, form, at / form.inner, at % form.inner)) {
        exact += x;
        magnitude += std::abs(x);
      }
      const auto additions = static_cast<double>((form.length + 15) / 16 - 1 + 4);
      CHECK(std::abs(sums[k] - exact) <= additions * 0x1p-24 * 1.001 * magnitude);
    }
  }
}

TEST_CASE("the sum of nothing is 0, the maximum of nothing is refused", "[executor][axis]") {
  ExecutorUnderTest dut;
  CHECK(dut.along_axis(DType::f16, AxisOp::sum, {}, {3, 0, 2}) == Elements(6, 0));
  CHECK_THROWS_AS(dut.along_axis(DType::f16, AxisOp::maximum, {}, {3, 0, 2}), InternalError);
  CHECK(dut.along_axis(DType::f16, AxisOp::maximum, {}, {0, 4, 2}).empty());
  CHECK(canonical(dut.along_axis(DType::f32, AxisOp::sum, {-0.0F, -0.0F}, {1, 2, 1})[0]) ==
        canonical(-0.0F));
}

TEST_CASE("maximum and minimum along an axis see NaN and the sign of zero", "[executor][axis]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const soft_float::Format format = soft_float::format_of(dtype);
  std::mt19937 random(7);
  for (const AxisForm& form : forms()) {
    ExecutorUnderTest dut;
    const Elements a = values_of(format, random_patterns(format, form.count_with_axis(), random));
    CHECK(canonical_bits(dut.along_axis(dtype, AxisOp::maximum, a, form)) ==
          reduced(a, dtype, form, [](const Elements& x) { return extreme(x, MathOp::maximum); }));
    CHECK(canonical_bits(dut.along_axis(dtype, AxisOp::minimum, a, form)) ==
          reduced(a, dtype, form, [](const Elements& x) { return extreme(x, MathOp::minimum); }));
  }
}

// With u = 2^-24 and d = max - x: d is off by u d, exp of it by that and u; the sum by as many u as
// it has additions, and by the largest error of its summands; the quotient by u.  Then one rounding
// to the type, or a loss of half its least subnormal.
TEST_CASE("softmax is within its bound, wherever its axis lies", "[executor][axis]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const double type_unit = dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0;
  const double least = dtype == DType::f16 ? 0x1p-25 : 0x1p-133;
  for (const AxisForm& form : forms()) {
    ExecutorUnderTest dut;
    const Elements a = random_elements(dtype, form.count_with_axis(), 12);
    const Elements result = dut.along_axis(dtype, AxisOp::softmax, a, form);
    for (std::int64_t outer = 0; outer < form.outer; ++outer) {
      for (std::int64_t inner = 0; inner < form.inner; ++inner) {
        const Elements x = format_line(a, form, outer, inner);
        const long double largest = *std::ranges::max_element(x);
        const double deepest = static_cast<double>(largest) - *std::ranges::min_element(x);
        long double sum = 0;
        for (const float element : x) sum += std::exp(element - largest);
        const auto additions = static_cast<double>((form.length + 15) / 16 - 1 + 4);
        const double relative =
            0x1p-24 * 1.001 * (2 * deepest + 2 * 1.1 + additions + 1) + type_unit;
        const Elements y = format_line(result, form, outer, inner);
        int wrong = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto exact = static_cast<double>(std::exp(x[i] - largest) / sum);
          wrong += std::abs(y[i] - exact) > relative * exact + least;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("softmax of equal elements, of one, and of infinities", "[executor][axis]") {
  ExecutorUnderTest dut;
  CHECK(dut.along_axis(DType::f16, AxisOp::softmax, Elements(64, 5), {2, 32, 1}) ==
        Elements(64, 1.0F / 32));
  CHECK(dut.along_axis(DType::f32, AxisOp::softmax, {3, -7}, {2, 1, 1}) == Elements{1, 1});
  CHECK(dut.along_axis(DType::f32, AxisOp::softmax, {0, -INFINITY, 0}, {1, 3, 1}) ==
        Elements{0.5F, 0, 0.5F});
  CHECK(dut.along_axis(DType::f32, AxisOp::softmax, {60'000, 0}, {1, 2, 1}) == Elements{1, 0});
  for (const float x : dut.along_axis(DType::f32, AxisOp::softmax, {1, NAN, 2}, {1, 3, 1})) {
    CHECK(std::isnan(x));
  }
  for (const float x :
       dut.along_axis(DType::f32, AxisOp::softmax, {-INFINITY, -INFINITY}, {1, 2, 1})) {
    CHECK(std::isnan(x));
  }
}

TEST_CASE("transposing moves every element to its place", "[executor][axis]") {
  const DType dtype = GENERATE(DType::f16, DType::f32);
  for (const AxisForm& form : forms()) {
    ExecutorUnderTest dut;
    const Elements a = iota(form.count_with_axis());
    const Elements transposed = dut.along_axis(dtype, AxisOp::transpose, a, form);
    const AxisForm other{form.outer, form.inner, form.length};
    int wrong = 0;
    for (std::int64_t outer = 0; outer < form.outer; ++outer) {
      for (std::int64_t i = 0; i < form.length; ++i) {
        for (std::int64_t j = 0; j < form.inner; ++j) {
          wrong += transposed[index_of(other, outer, j, i)] != a[index_of(form, outer, i, j)];
        }
      }
    }
    CHECK(wrong == 0);
    const Value twice = dut.store.along_axis(
        AxisOp::transpose,
        dut.store.along_axis(AxisOp::transpose, dut.store.literal(dtype, a), form), other);
    CHECK(dut.elements(twice) == a);
  }
}

TEST_CASE("a broadcast repeats each stretch, as an operand and by itself", "[executor][axis]") {
  const DType dtype = GENERATE(DType::f16, DType::f32);
  for (const AxisForm& form : forms()) {
    INFO(form.outer << " " << form.length << " " << form.inner);
    ExecutorUnderTest dut;
    const Elements a = iota(form.count_without_axis());
    Elements expected(static_cast<std::size_t>(form.count_with_axis()));
    for (std::int64_t outer = 0; outer < form.outer; ++outer) {
      for (std::int64_t i = 0; i < form.length; ++i) {
        for (std::int64_t j = 0; j < form.inner; ++j) {
          expected[index_of(form, outer, i, j)] =
              a[static_cast<std::size_t>(outer * form.inner + j)];
        }
      }
    }
    const Value source = dut.store.literal(dtype, a);
    const Value wide = dut.store.along_axis(AxisOp::broadcast, source, form);
    const Value zero = dut.store.constant(dtype, form.count_with_axis(), 0);
    CHECK(dut.computed_by_reading(dut.store.math(MathOp::add, wide, zero)) == 1);  // read through
    CHECK(dut.elements(dut.store.math(MathOp::add, wide, zero)) == expected);
    CHECK(dut.elements(wide) == expected);
    CHECK(dut.elements(dut.store.math(MathOp::add, zero, wide)) == expected);  // now written out
  }
}

TEST_CASE("parts of a broadcast and broadcasts of a broadcast are values like any other",
          "[executor][axis]") {
  ExecutorUnderTest dut;
  const Value a = dut.store.literal(DType::f16, Elements{1, 2, 3});
  const Value rows = dut.store.along_axis(AxisOp::broadcast, a, {1, 4, 3});  // 1 2 3 1 2 3 ...
  const Value cubes = dut.store.along_axis(AxisOp::broadcast, rows, {12, 2, 1});
  const Value part = dut.store.slice(rows, 2, 5);
  const Value sum = dut.store.math(MathOp::add, part, dut.store.constant(DType::f16, 5, 10));
  CHECK(dut.elements(sum) == Elements{13, 11, 12, 13, 11});
  CHECK(dut.elements(part) == Elements{3, 1, 2, 3, 1});
  const Value twice = dut.store.math(MathOp::add, cubes, cubes);
  CHECK(dut.elements(dut.store.slice(twice, 4, 6)) == Elements{6, 6, 2, 2, 4, 4});
  const Value later = dut.store.declare(DType::f16, 2);
  const Value spread = dut.store.along_axis(AxisOp::broadcast, later, {2, 2, 1});
  const Value doubled = dut.store.math(MathOp::add, spread, spread);
  CHECK_THROWS_AS(dut.elements(doubled), InternalError);
  dut.store.bind(later, dut.store.slice(a, 1, 2));
  CHECK(dut.elements(doubled) == Elements{4, 4, 6, 6});
}

TEST_CASE("a broadcast costs no storage as an operand", "[executor][axis]") {
  ExecutorUnderTest dut;
  Value column = dut.store.literal(DType::f32, Elements(100, 1));
  Value wide = dut.store.along_axis(AxisOp::broadcast, column, {100, 1000, 1});
  const Value sum = dut.store.math(MathOp::add, wide, dut.store.constant(DType::f32, 100'000, 1));
  column = wide = Value();
  CHECK(dut.elements(sum) == Elements(100'000, 2));
  CHECK(dut.store.live_bytes() == 400'000);
  CHECK(dut.store.live_value_count() == 1);
}

TEST_CASE("constants along an axis", "[executor][axis]") {
  ExecutorUnderTest dut;
  const Value two = dut.store.constant(DType::bf16, 6, 2);
  CHECK(dut.elements(dut.store.along_axis(AxisOp::sum, two, {2, 3, 1})) == Elements{6, 6});
  CHECK(dut.elements(dut.store.along_axis(AxisOp::maximum, two, {1, 3, 2})) == Elements{2, 2});
  CHECK(dut.elements(dut.store.along_axis(AxisOp::transpose, two, {1, 3, 2})) == Elements(6, 2));
  CHECK(dut.elements(dut.store.along_axis(AxisOp::broadcast, two, {1, 3, 6})) == Elements(18, 2));
}

TEST_CASE("a ramp counts from its start", "[executor][axis]") {
  ExecutorUnderTest dut;
  const Value ramp = dut.store.ramp(DType::f16, -2, 2051);
  const Elements elements = dut.elements(ramp);
  CHECK(elements.front() == -2);
  CHECK(elements[1] == -1);
  CHECK(elements.back() == 2048);
  CHECK(dut.elements(dut.store.ramp(DType::f32, 5, 1)) == Elements{5});
  CHECK(dut.elements(dut.store.ramp(DType::f32, 5, 0)).empty());
  CHECK(dut.elements(dut.store.slice(dut.store.ramp(DType::f32, 0, 9), 4, 2)) == Elements{4, 5});
}

TEST_CASE("an operation along an axis that its operand does not have is our own fault",
          "[executor][axis]") {
  MemoryStore store(true);
  const Value six = store.constant(DType::f32, 6, 1);
  CHECK_THROWS_AS(store.along_axis(AxisOp::sum, six, {2, 2, 1}), InternalError);
  CHECK_THROWS_AS(store.along_axis(AxisOp::broadcast, six, {2, 2, 1}), InternalError);
  CHECK_THROWS_AS(store.along_axis(AxisOp::ramp, six, {1, 6, 1}), InternalError);
}

}  // namespace kernbench::sim::axis_test
