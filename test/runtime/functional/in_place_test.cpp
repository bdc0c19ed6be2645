#include <sstream>

#include "sim_engine/base/error.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::in_place_test {
namespace {

TEST_CASE("in-place operators write into their tensor", "[in_place]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(on_pes(kR), on_pes(kRow), on_all(kRow, kColumn));
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, dp, dtype);
  const Tensor y = dut.tensor({2, 3}, {2, 2, 2, 4, 4, 4}, dp, dtype);
  const Tensor alias = x;
  x.add_(y).mul_(2);
  CHECK(alias.to_vector() == Floats{6, 8, 10, 16, 18, 20});
  x -= y;
  CHECK(alias.to_vector() == Floats{4, 6, 8, 12, 14, 16});
  x /= y;
  CHECK(alias.to_vector() == Floats{2, 3, 4, 3, 3.5F, 4});
  x.sub_(1).div_(2).neg_();
  CHECK(alias.to_vector() == Floats{-0.5F, -1, -1.5F, -1, -1.25F, -1.5F});
  x.add_(y, 0.5);
  CHECK(alias.to_vector() == Floats{0.5F, 0, -0.5F, 1, 0.75F, 0.5F});
  x.fill_(7);
  CHECK(alias.to_vector() == Floats(6, 7));
  x.zero_();
  CHECK(alias.to_vector() == Floats(6, 0));
}

TEST_CASE("a row that is written in place changes its tensor", "[in_place]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, on_pes(kR));
  x[1].mul_(10);
  CHECK(x.to_vector() == Floats{1, 2, 3, 40, 50, 60});
}

TEST_CASE("in-place operators take simulated time", "[in_place]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Time before = dut.torch.engine().now();
  x.add_(1);
  x.to_vector();
  CHECK(dut.torch.engine().now() > before);
}

TEST_CASE("gradients flow through in-place operators as in torch", "[in_place]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({3}, {1, 2, 3}, on_pes(kRow)).requires_grad_();
  const Tensor v = dut.tensor({3}, {4, 5, 6}, on_pes(kRow)).requires_grad_();
  const Tensor x = w * 1;
  x.mul_(v);  // w v
  x.add_(v);  // w v + v
  x.mul_(x);  // (w v + v)^2
  CHECK(x.to_vector() == Floats{64, 225, 576});
  x.sum().backward();
  CHECK(w.grad().to_vector() == Floats{64, 150, 288});  // 2 (w v + v) v
  CHECK(v.grad().to_vector() == Floats{32, 90, 192});   // 2 (w v + v) (w + 1)
}

TEST_CASE("gradients flow through a written view to its tensor", "[in_place]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kR)).requires_grad_();
  const Tensor s = dut.tensor({2}, {5, 6}, on_pes(kR)).requires_grad_();
  const Tensor x = w * 1;
  x[1].mul_(s);
  CHECK(x.to_vector() == Floats{1, 2, 15, 24});
  (x * x).sum().backward();
  CHECK(w.grad().to_vector() == Floats{2, 4, 150, 288});
  CHECK(s.grad().to_vector() == Floats{90, 192});
}

TEST_CASE("what must not be written in place is refused", "[in_place]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.leaf({2, 3}, 1, on_pes(kRow));
  CHECK_THAT(refusal([&] { w.add_(1); }),
             Says("KB-A008",
                  "a leaf Variable that requires grad is being used in an in-place "
                  "operation.",
                  "add into tensor"));
  {
    const NoGradGuard no_grad(dut.torch);
    const Floats before = w.to_vector();
    w.add_(1);
    for (std::size_t i = 0; i < 6; ++i) CHECK(w.to_vector()[i] == before[i] + 1);
  }
  const Tensor x = dut.leaf({3}, 1, on_pes(kR));
  CHECK_THAT(error([&] {
               x.detach().add_(dut.leaf({2, 3}, 1, on_pes(kR)));
             }),
             Says("KB-F001", "output with shape [3] doesn't match the broadcast shape [2, 3]"));
  const Tensor y = x * 1;
  const Tensor z = exp(y);
  z.add_(1);
  CHECK_THAT(refusal([&] { z.sum().backward(); }), Says("KB-A005", "inplace operation"));
}

TEST_CASE("in place too, what an operator has no numbers for is refused", "[in_place]") {
  OperatorsUnderTest dut;
  const auto of_type = [&](DType dtype) {
    return dut.tensor({2}, {1, 1}, DPPolicy::on_one_pe(), dtype);
  };
  const Tensor x = of_type(DType::f32);
  const Tensor whole = of_type(DType::i64);
  const Tensor flag = of_type(DType::boolean);
  CHECK_THAT(error([&] { x.addcdiv_(whole, whole); }),
             Says("KB-F002", "addcdiv_", "Integer division"));
  CHECK_THAT(error([&] { flag.addcmul_(flag, flag); }), Says("KB-F002", "addcmul_"));
  CHECK_THAT(error([&] { whole.lerp_(whole, 0.5); }), Says("KB-F002", "lerp_"));
  x.addcdiv_(whole, x).addcmul_(whole, x);
  CHECK(x.to_vector() == Floats{4, 4});  // 1 + 1 / 1, + 1 * 2
}

TEST_CASE("tensors have torch's methods, and print", "[in_place]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, on_pes(kR));
  CHECK(x.dim() == 2);
  CHECK(x.size(-1) == 3);
  CHECK(x.t().to_vector() == Floats{1, 4, 2, 5, 3, 6});
  CHECK(x.view({3, -1}).shape() == Shape{3, 2});
  CHECK(x.flatten().shape() == Shape{6});
  CHECK(x.unsqueeze(1).shape() == Shape{2, 1, 3});
  CHECK(x.unsqueeze(-1).squeeze(2).shape() == Shape{2, 3});
  CHECK(x.matmul(x.t()).to_vector() == Floats{14, 32, 32, 77});
  std::ostringstream out;
  out << x.narrow(1, 0, 2);
  CHECK(out.str() == "tensor([[1, 2], [4, 5]], dtype=f32)");
}

}  // namespace
}  // namespace kernbench::test::in_place_test
