// Matrix products of elements of 8 bits.

#include <catch2/catch.hpp>

#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::scaled_mm_test {
namespace {

constexpr DType kE4 = DType::f8e4m3fn;
constexpr DType kE5 = DType::f8e5m2;

// Integers from -8 to 8, which both types have.
Floats eighths(std::int64_t count, int seed) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((i * i + 7 * i * seed + seed) % 17 - 8));
  }
  return elements;
}

Floats product(const Floats& a, const Floats& b, std::int64_t m, std::int64_t n, std::int64_t k,
               float scale, const Floats& bias = {}) {
  Floats elements;
  for (std::int64_t i = 0; i < m * n; ++i) {
    float sum = 0;
    for (std::int64_t l = 0; l < k; ++l) {
      sum +=
          a[static_cast<std::size_t>(i / n * k + l)] * b[static_cast<std::size_t>(l * n + i % n)];
    }
    elements.push_back(scale * sum + (bias.empty() ? 0 : bias[static_cast<std::size_t>(i % n)]));
  }
  return elements;
}

TEST_CASE("products of 8-bit elements are sums in f32", "[scaled_mm]") {
  OperatorsUnderTest dut;
  const auto [m, n, k] = GENERATE(std::tuple(1, 1, 1), std::tuple(5, 7, 33), std::tuple(64, 40, 3),
                                  std::tuple(3, 4, 0), std::tuple(0, 4, 3));
  const auto [of_a, of_b] = GENERATE(std::pair(kE4, kE4), std::pair(kE4, kE5), std::pair(kE5, kE4));
  const DPPolicy dp = GENERATE(DPPolicy::on_one_pe(), DPPolicy::shared());
  const Floats a = eighths(m * k, 1);
  const Floats b = eighths(k * n, 2);
  const Tensor c = scaled_mm(dut.tensor({m, k}, a, dp, of_a), dut.tensor({k, n}, b, dp, of_b),
                             {.scale_a = 0.5, .scale_b = 0.25, .out_dtype = DType::f32});
  CHECK(c.shape() == Shape{m, n});
  CHECK(c.dtype() == DType::f32);
  CHECK(c.to_vector() == product(a, b, m, n, k, 0.125F));
}

TEST_CASE("a product of 8-bit elements has a bias, and is rounded once", "[scaled_mm]") {
  OperatorsUnderTest dut;
  const Floats a = eighths(6 * 50, 3);
  const Floats b = eighths(50 * 4, 5);
  const Floats bias{0.5F, -1, 2, 1024};
  const Tensor of_a = dut.tensor({6, 50}, a, DPPolicy::on_one_pe(), kE4);
  const Tensor of_b = dut.tensor({50, 4}, b, DPPolicy::on_one_pe(), kE4);
  const Floats exact = product(a, b, 6, 4, 50, 1, bias);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Tensor of_bias = dut.tensor({4}, bias, DPPolicy::on_one_pe(), dtype);
    const Tensor c = scaled_mm(of_a, of_b, {.bias = of_bias, .out_dtype = dtype});
    CHECK(c.dtype() == dtype);
    CHECK(c.to_vector() == dut.tensor({6, 4}, exact, DPPolicy::on_one_pe(), dtype).to_vector());
  }
  CHECK(scaled_mm(of_a, of_b).dtype() == DType::bf16);
  // A view of the transpose, as torch wants the second factor.
  const Tensor turned = dut.tensor(
      {4, 50},
      [&] {
        Floats elements;
        for (std::size_t i = 0; i < 200; ++i) elements.push_back(b[i % 50 * 4 + i / 50]);
        return elements;
      }(),
      DPPolicy::on_one_pe(), kE4);
  CHECK(scaled_mm(of_a, transpose(turned, 0, 1)).to_vector() == scaled_mm(of_a, of_b).to_vector());
}

TEST_CASE("what is no product of 8-bit elements is refused in torch's words", "[scaled_mm]") {
  OperatorsUnderTest dut;
  const auto of = [&](DType dtype, const Shape& shape = {2, 2}) {
    return dut.tensor(shape, Floats(static_cast<std::size_t>(shape.numel()), 1.0F),
                      DPPolicy::on_one_pe(), dtype);
  };
  const auto refusal = [&](const Tensor& a, const Tensor& b, const ScaledMmOptions& options = {}) {
    return error([&] { scaled_mm(a, b, options); });
  };
  CHECK_THAT(refusal(of(DType::f16), of(kE4)),
             Says("KB-F002", "Expected mat1 to be Float8 matrix got Half"));
  CHECK_THAT(refusal(of(kE4), of(DType::f32)),
             Says("KB-F002", "Expected mat2 to be Float8 matrix got Float"));
  CHECK_THAT(refusal(of(kE5), of(kE5)),
             Says("KB-F002", "Multiplication of two Float8_e5m2 matrices is not supported"));
  CHECK_THAT(refusal(of(kE4), of(kE4), {.out_dtype = kE4}), Says("KB-F002", "out_dtype"));
  CHECK_THAT(refusal(of(kE4), of(kE4), {.bias = of(kE4, {2})}), Says("KB-F002", "bf16"));
  CHECK_THAT(refusal(of(kE4), of(kE4), {.bias = of(DType::f32, {2})}), Says("KB-F002", "bf16"));
  CHECK_THAT(refusal(of(kE4), of(kE4), {.bias = of(DType::bf16, {3})}), Says("KB-F001"));
  CHECK_THAT(refusal(of(kE4, {4}), of(kE4)), Says("KB-F001", "mat1 must be a matrix"));
  CHECK_THAT(refusal(of(kE4, {2, 3}), of(kE4)), Says("KB-F001", "cannot be multiplied"));
  CHECK_THAT(refusal(of(kE4), of(kE4), {.bias = of(DType::bf16, {2}).requires_grad_()}),
             Says("KB-F002", "derivative for scaled_mm is not implemented"));
  CHECK_THAT(error([&] { matmul(of(kE4), of(kE4)); }), Says("KB-F002", "scaled_mm()"));
  CHECK_THAT(error([&] { matmul(of(kE4), of(DType::f16)); }), Says("KB-F002", "scaled_mm()"));
}

}  // namespace
}  // namespace kernbench::test::scaled_mm_test
