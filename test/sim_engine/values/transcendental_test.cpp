// exp, log, sin, ... against the C library's long double, which they share nothing with.

#include "sim_engine/values/transcendental.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::transcendental_test {

namespace {

using soft_float::canonical;

struct Function {
  MathOp op;
  long double (*exact)(long double);
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {MathOp::exp, [](long double x) { return std::exp(x); }},
      {MathOp::log, [](long double x) { return std::log(x); }},
      {MathOp::rsqrt, [](long double x) { return 1 / std::sqrt(x); }},
      {MathOp::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }},
      {MathOp::floor, [](long double x) { return std::floor(x); }},
      {MathOp::exp2, [](long double x) { return std::exp2(x); }},
      {MathOp::log2, [](long double x) { return std::log2(x); }},
      {MathOp::sin, [](long double x) { return std::sin(x); }},
      {MathOp::cos, [](long double x) { return std::cos(x); }},
      {MathOp::erf, [](long double x) { return std::erf(x); }}};
  return all;
}

// The distance of f32 at `x`.
long double unit_in_last_place(long double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0L, std::max(exponent - 24, -149));
}

// Where the functions change: around 0, 1, overflow and underflow.
Elements interesting_arguments() {
  Elements arguments;
  for (const float centre :
       {0.0F, 1.0F, 0.5F, 88.72284F, -87.33655F, -103.97208F, 0x1p-126F, 0.70710678F, 1.4142135F,
        16.635532F, -16.635532F, 3.1415927F, 1.5707964F, 128.0F, 1e10F, 3e38F, 3.9F}) {
    float up = centre;
    float down = centre;
    for (int i = 0; i < 100; ++i) {
      arguments.insert(arguments.end(), {up, down});
      up = std::nextafter(up, INFINITY);
      down = std::nextafter(down, -INFINITY);
    }
  }
  return arguments;
}

}  // namespace

TEST_CASE("transcendental functions of f32 are within 0.500001 units in the last place",
          "[transcendental][exhaustive]") {
  const Function function = GENERATE(from_range(functions()));
  std::mt19937 random(1);
  Elements x = values_of(soft_float::kF32, random_patterns(soft_float::kF32, 1'000'000, random));
  for (int i = 0; i < 1'000'000; ++i) {  // most patterns are too large or too small for exp
    x.push_back(static_cast<float>(random()) * 0x1p-24F - 128);
  }
  const Elements interesting = interesting_arguments();
  x.insert(x.end(), interesting.begin(), interesting.end());
  ExecutorUnderTest dut;
  const Elements y = dut.math(DType::f32, function.op, x);
  int compared = 0;
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = function.exact(x[i]);
    const auto nearest = static_cast<float>(exact);
    if (!std::isfinite(nearest) || nearest == 0) {
      wrong += canonical(y[i]) != canonical(nearest);
    } else {
      wrong += std::abs(y[i] - exact) > 0.500001L * unit_in_last_place(exact);
      ++compared;
    }
  }
  INFO(name_of(function.op));
  CHECK(wrong == 0);
  CHECK(compared > 900'000);
}

TEST_CASE("of every f16 and bf16 they are the nearest f32, rounded to the type",
          "[transcendental][exhaustive]") {
  const Function function = GENERATE(from_range(functions()));
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const Elements x = values_of(soft_float::format_of(dtype), all_patterns());
  ExecutorUnderTest dut;
  const Elements y = dut.math(dtype, function.op, x);
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto nearest = static_cast<float>(function.exact(x[i]));
    wrong += canonical(y[i]) != canonical(soft_float::round_to(dtype, nearest));
  }
  INFO(name_of(function.op));
  CHECK(wrong == 0);
}

TEST_CASE("special arguments give what the C library documents", "[transcendental]") {
  ExecutorUnderTest dut;
  const auto of = [&](MathOp op, float x) { return canonical(dut.math(DType::f32, op, {x})[0]); };
  CHECK(of(MathOp::exp, 0) == canonical(1));
  CHECK(of(MathOp::exp, -0.0F) == canonical(1));
  CHECK(of(MathOp::exp, INFINITY) == canonical(INFINITY));
  CHECK(of(MathOp::exp, -INFINITY) == canonical(0));
  CHECK(of(MathOp::exp, 3e38F) == canonical(INFINITY));
  CHECK(of(MathOp::exp, -3e38F) == canonical(0));
  CHECK(of(MathOp::exp, NAN) == canonical(NAN));
  CHECK(of(MathOp::log, 1) == canonical(0));
  CHECK(of(MathOp::log, 0) == canonical(-INFINITY));
  CHECK(of(MathOp::log, -0.0F) == canonical(-INFINITY));
  CHECK(of(MathOp::log, -1) == canonical(NAN));
  CHECK(of(MathOp::log, INFINITY) == canonical(INFINITY));
  CHECK(of(MathOp::log, NAN) == canonical(NAN));
  CHECK(of(MathOp::rsqrt, 0) == canonical(INFINITY));
  CHECK(of(MathOp::rsqrt, -0.0F) == canonical(-INFINITY));
  CHECK(of(MathOp::rsqrt, INFINITY) == canonical(0));
  CHECK(of(MathOp::rsqrt, -1) == canonical(NAN));
  CHECK(of(MathOp::rsqrt, 0.25F) == canonical(2));
  CHECK(of(MathOp::sigmoid, 0) == canonical(0.5F));
  CHECK(of(MathOp::sigmoid, INFINITY) == canonical(1));
  CHECK(of(MathOp::sigmoid, -INFINITY) == canonical(0));
  CHECK(of(MathOp::sigmoid, -100) == canonical(0x1.aa9p-145F));  // subnormal
  CHECK(of(MathOp::sigmoid, NAN) == canonical(NAN));
  CHECK(of(MathOp::floor, -0.0F) == canonical(-0.0F));
  CHECK(of(MathOp::floor, -INFINITY) == canonical(-INFINITY));
  CHECK(of(MathOp::exp2, -149) == canonical(0x1p-149F));
  CHECK(of(MathOp::exp2, 128) == canonical(INFINITY));
  CHECK(of(MathOp::log2, 0x1p-149F) == canonical(-149));
  CHECK(of(MathOp::log2, 0) == canonical(-INFINITY));
  for (const MathOp op : {MathOp::sin, MathOp::cos}) {
    for (const float x : {INFINITY, -INFINITY, NAN}) CHECK(of(op, x) == canonical(NAN));
  }
  CHECK(of(MathOp::sin, -0.0F) == canonical(-0.0F));
  CHECK(of(MathOp::cos, 0) == canonical(1));
  CHECK(of(MathOp::erf, -0.0F) == canonical(-0.0F));
  CHECK(of(MathOp::erf, INFINITY) == canonical(1));
  CHECK(of(MathOp::erf, -INFINITY) == canonical(-1));
  CHECK(of(MathOp::erf, NAN) == canonical(NAN));
}

// The elements at every place of a vector loop and of its remainder.
TEST_CASE("a function's result does not depend on the place of the element", "[transcendental]") {
  using Loop = void (*)(const float*, float*, std::int64_t);
  for (const Loop loop :
       {exp_elements, log_elements, sqrt_elements, rsqrt_elements, sigmoid_elements, floor_elements,
        exp2_elements, log2_elements, sin_elements, cos_elements, erf_elements}) {
    Elements x;
    for (int i = 0; i < 40; ++i) x.push_back(0.1F + static_cast<float>(i * i) / 7);
    Elements whole(x.size());
    loop(x.data(), whole.data(), 40);
    Elements single(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) loop(&x[i], &single[i], 1);
    CHECK(single == whole);
  }
}

TEST_CASE("the functions have the same bits in every build and on every host",
          "[transcendental][determinism]") {
  std::uint64_t hash = 0xcbf29ce484222325;
  ExecutorUnderTest dut;
  Elements x;
  for (int i = -30'000; i < 30'000; ++i) x.push_back(static_cast<float>(i) * 0x1.000347p-8F);
  for (const Function& function : functions()) {
    for (const float y : dut.math(DType::f32, function.op, x)) {
      hash = (hash ^ canonical(y)) * 0x100000001b3;
    }
  }
  CHECK(hash == 0x7761924c65f03289);
}

}  // namespace kernbench::sim::transcendental_test
