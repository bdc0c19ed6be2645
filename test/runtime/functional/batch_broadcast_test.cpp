// Products whose batches broadcast, compared with products of what torch expands.

#include "runtime/functional/functional.h"
#include "runtime/functional/shape_operators.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::batch_broadcast_test {
namespace {

// Returns [count, m, k] whose matrices are those of x [1 or count, m, k].
Tensor repeated(OperatorsUnderTest& dut, const Tensor& x, std::int64_t count) {
  const Floats once = x.to_vector();
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i)
    elements.insert(elements.end(), once.begin(), once.end());
  return dut.tensor({count, x.size(-2), x.size(-1)}, elements).requires_grad_();
}

Floats sum_of_batch(const Tensor& gradient) {
  return sum(gradient, 0).to_vector();
}

TEST_CASE("a matrix is multiplied with each of a batch, and gets the sum of their gradients",
          "[matmul][broadcast]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Tensor a = dut.leaf({2, 3}, 1, DPPolicy::on_one_pe(), dtype);
  const Tensor b = dut.leaf({5, 3, 4}, 2, DPPolicy::on_one_pe(), dtype);
  const Tensor all_a = repeated(dut, a, 5);
  const Tensor all_b = b.detach().to(DType::f32).requires_grad_();
  const Tensor wanted = matmul(all_a, all_b);
  const Tensor dy = dut.tensor({5, 2, 4}, small_integers(40, 3));
  wanted.backward(dy);
  for (const Shape& front : {Shape{2, 3}, Shape{1, 2, 3}, Shape{1, 1, 2, 3}}) {
    a.zero_grad(), b.zero_grad();
    const Tensor y = matmul(reshape(a, front), b);
    CHECK(y.dim() == std::max<std::int64_t>(reshape(a, front).dim(), 3));
    CHECK(y.to_vector() == wanted.to_vector());
    y.backward(reshape(dy.to(dtype), y.shape()));
    CHECK(a.grad().to_vector() == sum_of_batch(all_a.grad()));
    CHECK(b.grad().to_vector() == all_b.grad().to_vector());
  }
}

TEST_CASE("the sizes in front of matrices broadcast as torch's", "[matmul][broadcast]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.leaf({2, 1, 2, 3}, 1);
  const Tensor b = dut.leaf({5, 3, 4}, 2);
  const Tensor y = matmul(a, b);
  REQUIRE(y.shape() == Shape{2, 5, 2, 4});
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 5; ++j) {
      CHECK(y[i][j].to_vector() == matmul(a[i][0], b[j]).to_vector());
    }
  }
  y.sum().backward();
  // Each element of a meets a row's sum of every b.
  CHECK(a.grad()[1][0][0].to_vector() == sum(b.detach(), {0, 2}).to_vector());
  CHECK(b.grad()[4].select(1, 0).to_vector() == sum(a.detach(), {0, 1, 2}).to_vector());
  CHECK(matmul(a.transpose(-1, -2), b, {.transpose_a = true}).to_vector() == y.to_vector());
  CHECK(matmul(a, b.transpose(-1, -2), {.transpose_b = true, .alpha = 2}).to_vector() ==
        (2 * y).to_vector());
  CHECK_THAT(error([&] {
               matmul(dut.leaf({2, 2, 3}, 1), b);
             }),
             Says("KB-F001",
                  "The size of tensor a (2) must match the size of tensor b (5) at non-singleton "
                  "dimension 0"));
  CHECK_THAT(error([&] { matmul(b, b); }),
             Says("KB-F001",
                  "Expected size for first two dimensions of batch2 tensor to be: [5, 4] but got: "
                  "[5, 3]."));
}

TEST_CASE("vectors are multiplied with batches", "[matmul][broadcast]") {
  OperatorsUnderTest dut;
  const Tensor v = dut.leaf({3}, 1);
  const Tensor b = dut.leaf({2, 3, 4}, 2);
  const Tensor y = matmul(v, b);
  REQUIRE(y.shape() == Shape{2, 4});
  CHECK(y[1].to_vector() == matmul(v, b[1]).to_vector());
  y.sum().backward();
  CHECK(v.grad().to_vector() == sum(b.detach(), {0, 2}).to_vector());
  CHECK(matmul(b.transpose(1, 2), v).to_vector() == y.to_vector());
  CHECK_THAT(error([&] { matmul(b, v); }), Says("KB-F001", "size mismatch, got 6, 6x4,3"));
}

TEST_CASE("PEs share a batch whose other factor is one matrix", "[matmul][broadcast]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.leaf({2, 3}, 1, on_pes(kR));
  const Tensor b = dut.leaf({4, 3, 4}, 2, on_pes(kRow));
  const Tensor whole_a = dut.leaf({2, 3}, 1);
  const Tensor whole_b = dut.leaf({4, 3, 4}, 2);
  const Tensor y = matmul(a, b);
  CHECK(y.dp().pe == kRow);
  const Tensor wanted = matmul(whole_a, whole_b);
  CHECK(y.to_vector() == wanted.to_vector());
  y.sum().backward();
  wanted.sum().backward();
  CHECK(a.grad().to_vector() == whole_a.grad().to_vector());
  CHECK(b.grad().to_vector() == whole_b.grad().to_vector());
  const Tensor turned = matmul(b.transpose(1, 2), a.transpose(0, 1));  // the batch first
  CHECK(turned.dp().pe == kRow);
  CHECK(turned.to_vector() == wanted.transpose(1, 2).to_vector());
  CHECK_THAT(error([&] { matmul(dut.leaf({4, 2, 3}, 1, on_pes(kR)), b); }), Says("KB-F003"));
}

TEST_CASE("a linear layer takes one vector", "[matmul]") {
  OperatorsUnderTest dut;
  namespace F = nn::functional;
  const Tensor x = dut.leaf({3}, 1);
  const Tensor w = dut.leaf({4, 3}, 2);
  const Tensor b = dut.leaf({4}, 3);
  const Tensor y = F::linear(x, w, b);
  REQUIRE(y.shape() == Shape{4});
  CHECK(y.to_vector() == F::linear(x.unsqueeze(0), w, b).to_vector());
  CHECK(F::linear(x, w).to_vector() == matmul(w, x).to_vector());
  CHECK(F::linear(w, x).to_vector() == matmul(w, x).to_vector());
  y.sum().backward();
  CHECK(b.grad().to_vector() == Floats{1, 1, 1, 1});
  CHECK(x.grad().to_vector() == sum(w.detach(), 0).to_vector());
  CHECK_THAT(error([&] { F::linear(b, w, b); }),
             Says("KB-F001", "mat1 and mat2 shapes cannot be multiplied (1x4 and 3x4)"));
  CHECK_THAT(error([&] { F::linear(w, b); }), Says("KB-F001", "size mismatch, got 4, 4x3,4"));
}

}  // namespace
}  // namespace kernbench::test::batch_broadcast_test
