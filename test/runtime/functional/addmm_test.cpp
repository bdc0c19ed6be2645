// Tests a product's epilogue: a factor and a bias, before the one rounding.

#include <limits>

#include "runtime/functional/functional.h"
#include "sim_engine/values/element_format.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::addmm_test {
namespace {

namespace F = nn::functional;

Tensor half(OperatorsUnderTest& dut, const Shape& shape, const Floats& elements) {
  return dut.tensor(shape, elements, DPPolicy::on_one_pe(), DType::f16);
}

TEST_CASE("a bias is added before the one rounding", "[addmm]") {
  OperatorsUnderTest dut;
  // In f16 numbers above 2048 are even, and none is above 65504.
  const Tensor x = half(dut, {1, 2}, {1, 1});
  const Tensor w = half(dut, {2, 2}, {2048, 60000, 1, 30000});
  const Tensor b = half(dut, {2}, {1, -65504});
  CHECK(addmm(b, x, w).to_vector() == Floats{2050, 24496});
  CHECK(F::linear(x, transpose(w, 0, 1), b).to_vector() == Floats{2050, 24496});
  CHECK(matmul(x, w).to_vector() == Floats{2048, std::numeric_limits<float>::infinity()});
}

TEST_CASE("a factor is applied before the one rounding", "[addmm]") {
  OperatorsUnderTest dut;
  const Tensor x = half(dut, {1, 2}, {1, 1});
  const Tensor w = half(dut, {2, 2}, {60000, 2048, 30000, 1});
  CHECK(matmul(x, w, {.alpha = 0.5}).to_vector() == Floats{45000 - 8, 1024});  // of 44992, 45024
  const Tensor sevenths = matmul(x, w, {.alpha = 1 / 7.0});
  CHECK(sevenths.to_vector() == Floats{sim::round_to(DType::f16, 90000 * (1 / 7.0F)),
                                       sim::round_to(DType::f16, 2049 * (1 / 7.0F))});
  const Tensor b = half(dut, {2}, {-45000 + 8, 3});
  // 45000 - 44992; 1024.5 + 3 = 1027.5, and the even neighbour of 1027 and 1028.
  CHECK(addmm(b, x, w, {.alpha = 0.5}).to_vector() == Floats{8, 1028});
}

struct Case {
  Shard a;
  Shard b;
  Shard bias;
  Shard c;
  Shard of_bias;  // of its gradient
};

TEST_CASE("a bias lies as the columns of the product do, and so does its gradient", "[addmm]") {
  const Case of = GENERATE(
      Case{kR, kR, kR, kR, kR}, Case{kRow, kR, kR, kRow, kPartial},
      Case{kR, kColumn, kColumn, kColumn, kColumn}, Case{kR, kColumn, kRow, kColumn, kColumn},
      Case{kColumn, kRow, kPartial, kPartial, kR}, Case{kR, kPartial, kPartial, kPartial, kR});
  const bool is_small = GENERATE(false, true);  // scratch: with tiles of all three dimensions
  Topology topology = six_pe_topology();
  if (is_small) topology.pe.tcm.capacity = 8 * 1024;
  OperatorsUnderTest dut(topology);
  const Tensor a = dut.leaf({7, 40}, 1, on_pes(of.a));
  const Tensor b = dut.leaf({40, 50}, 2, on_pes(of.b));
  const Tensor bias = dut.leaf({50}, 3, on_pes(of.bias));
  const Tensor c = addmm(bias, a, b, {.alpha = 2});
  CHECK(c.dp() == on_pes(of.c));

  const DPPolicy one = DPPolicy::on_one_pe();
  const Tensor plain_a = dut.tensor({7, 40}, a.to_vector(), one).requires_grad_();
  const Tensor plain_b = dut.tensor({40, 50}, b.to_vector(), one).requires_grad_();
  const Tensor plain_bias = dut.tensor({50}, bias.to_vector(), one).requires_grad_();
  const Tensor plain_c = 2 * matmul(plain_a, plain_b) + plain_bias;  // small integers: exact
  CHECK(c.to_vector() == plain_c.to_vector());
  const Floats dc = small_integers(350, 4);
  c.backward(dut.tensor({7, 50}, dc, gradient_policy(on_pes(of.c))));
  plain_c.backward(dut.tensor({7, 50}, dc, one));
  CHECK(a.grad().to_vector() == plain_a.grad().to_vector());
  CHECK(b.grad().to_vector() == plain_b.grad().to_vector());
  CHECK(bias.grad().to_vector() == plain_bias.grad().to_vector());
  CHECK(bias.grad().dp() == on_pes(of.of_bias));
}

TEST_CASE("rows of any number of dimensions get a bias, in batches too", "[addmm]") {
  OperatorsUnderTest dut;
  const Tensor bias = dut.leaf({3}, 1);
  const Tensor rows = dut.leaf({2, 5, 4}, 2);
  const Tensor w = dut.leaf({4, 3}, 3);
  CHECK(addmm(bias, rows, w).to_vector() == (matmul(rows, w) + bias).to_vector());
  const Tensor batch = dut.leaf({2, 4, 3}, 4);
  CHECK(addmm(bias, rows, batch).to_vector() == (matmul(rows, batch) + bias).to_vector());
  const Tensor nothing = dut.leaf({5, 0}, 5);
  CHECK(addmm(bias, nothing, dut.leaf({0, 3}, 6)).to_vector() ==
        (dut.tensor({5, 3}, Floats(15)) + bias).to_vector());
}

TEST_CASE("a product with a bias is one kernel, and without one a matmul", "[addmm]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 3}, 1);
  const Tensor w = dut.leaf({5, 3}, 2);
  const auto kernels = [&] { return dut.torch.engine().results().size(); };
  const std::size_t before = kernels();
  F::linear(x, w, dut.leaf({5}, 3));
  CHECK(kernels() == before + 1);
  CHECK(addmm({}, x, w, {.transpose_b = true}).name() == "matmul");
}

TEST_CASE("a bias that does not fit the product is refused", "[addmm]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 3}, 1, on_pes(kR));
  const Tensor w = dut.leaf({3, 6}, 2, on_pes(kColumn));
  const Tensor b = dut.tensor({5}, Floats(5), on_pes(kColumn), DType::f32, "b");
  CHECK_THAT(error([&] { addmm(b, x, w); }), Says("KB-F001", "addmm", "'b' is [5]", "[6]"));
  CHECK_THAT(error([&] { addmm(dut.leaf({6}, 3, on_pes(kR)), x, w); }), Says("KB-F003", "addmm"));
  CHECK_THAT(error([&] { addmm(dut.leaf({6}, 3, on_pes(kColumn), DType::f16), x, w); }),
             Says("KB-F002", "addmm"));
  const Tensor summand = dut.leaf({4, 3}, 1, on_pes(kPartial));
  CHECK_THAT(error([&] {
               addmm(dut.leaf({6}, 3, on_pes(kR)), summand, dut.leaf({3, 6}, 2, on_pes(kR)));
             }),
             Says("KB-F003", "all_reduce it first"));
}

TEST_CASE("attention scales scores before they are rounded", "[addmm][attention]") {
  OperatorsUnderTest dut;
  const std::int64_t d = 64;
  const Floats all(static_cast<std::size_t>(8 * d), 32);
  Floats keys;  // two of the same products with a query: 65536, beyond f16; scaled 8192
  for (std::int64_t i = 0; i < d; ++i) keys.push_back(32);
  for (std::int64_t i = 0; i < d; ++i) keys.push_back(i % 2 == 0 ? 33 : 31);
  Tensor q = half(dut, {8, d}, all).requires_grad_();
  Tensor k = half(dut, {2, d}, keys).requires_grad_();
  Tensor v = half(dut, {2, 1}, {1, 3}).requires_grad_();
  const Tensor y = F::scaled_dot_product_attention(q, k, v);
  CHECK(y.to_vector() == Floats(8, 2));
  // p = 1/2, so the scores' gradients are p (dy v - 2 dy) = -512 and 512.
  y.backward(half(dut, {8, 1}, Floats(8, 1024)));
  CHECK(v.grad().to_vector() == Floats{4096, 4096});
  Floats of_k(static_cast<std::size_t>(d), -16384);  // 8 x 512 x 32 is beyond f16, an eighth is not
  of_k.insert(of_k.end(), static_cast<std::size_t>(d), 16384);
  CHECK(k.grad().to_vector() == of_k);
  Floats of_q;
  for (std::int64_t i = 0; i < 8 * d; ++i) of_q.push_back(i % 2 == 0 ? 64.0F : -64.0F);
  CHECK(q.grad().to_vector() == of_q);
}

}  // namespace
}  // namespace kernbench::test::addmm_test
