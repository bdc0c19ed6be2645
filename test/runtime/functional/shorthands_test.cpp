// Methods, free functions, in-place forms and numbers on either side: torch has them all, and each
// is another one.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::shorthands_test {
namespace {

TEST_CASE("in-place functions write what the functions compute, and are recorded", "[in_place]") {
  struct Row {
    std::string name;
    std::function<Tensor(const Tensor&)> of;
    std::function<const Tensor&(const Tensor&)> in_place;
  };
  const std::vector<Row> rows = {
      {"exp", [](auto& x) { return exp(x); }, [](auto& x) -> auto& {return x.exp_();
}
}  // namespace
, {"log", [](auto& x) { return log(x); }, [](auto& x) -> auto& {return x.log_();
}  // namespace kernbench::test::shorthands_test
}
, {"sqrt", [](auto& x) { return sqrt(x); }, [](auto& x) -> auto& {return x.sqrt_();
}
}
, {"rsqrt", [](auto& x) { return rsqrt(x); }, [](auto& x) -> auto& {return x.rsqrt_();
}
}
, {"abs", [](auto& x) { return abs(x); }, [](auto& x) -> auto& {return x.abs_();
}
}
, {"square", [](auto& x) { return square(x); }, [](auto& x) -> auto& {return x.square_();
}
}
, {"reciprocal", [](auto& x) { return reciprocal(x); },
   [](auto& x) -> auto& {return x.reciprocal_();
}
}
, {"relu", [](auto& x) { return relu(x); }, [](auto& x) -> auto& {return x.relu_();
}
}
, {"sigmoid", [](auto& x) { return sigmoid(x); }, [](auto& x) -> auto& {return x.sigmoid_();
}
}
, {"tanh", [](auto& x) { return tanh(x); }, [](auto& x) -> auto& {return x.tanh_();
}
}
, {"pow", [](auto& x) { return pow(x, 3); }, [](auto& x) -> auto& {return x.pow_(3);
}
}
, {"clamp", [](auto& x) { return clamp(x, 0.5, 1.5); },
   [](auto& x) -> auto& {return x.clamp_(0.5, 1.5);
}
}
, {"masked_fill", [](auto& x) { return masked_fill(x, x > 1, 7); },
   [](auto& x) -> auto& {return x.masked_fill_(x > 1, 7);
}
}
,
}
;
OperatorsUnderTest dut;
for (const Row& row : rows) {
  for (const DType dtype : kDTypes) {
    INFO(row.name << " " << name_of(dtype));
    Floats elements;
    for (int i = 1; i <= 12; ++i) elements.push_back(static_cast<float>(i) / 4);
    const auto gradient_of = [&](bool in_place, Floats& y) {
      const Tensor x = dut.tensor({3, 4}, elements, on_pes(kRow), dtype).requires_grad_();
      Tensor of = x * 1;
      if (in_place) {
        row.in_place(of);
      } else {
        of = row.of(of);
      }
      y = of.to_vector();
      of.sum().backward();
      return x.grad().to_vector();
    };
    Floats y;
    Floats y_in_place;
    const Floats expected = gradient_of(false, y);
    CHECK(gradient_of(true, y_in_place) == expected);
    CHECK(y_in_place == y);
  }
}
}

TEST_CASE("a number may stand on the left of a comparison", "[elementwise]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.arange(4);
  const auto is = [](const Tensor& mask) { return mask.to_vector<int>(); };
  using Ints = std::vector<int>;
  CHECK(is(2 < x) == Ints{0, 0, 0, 1});
  CHECK(is(2 <= x) == Ints{0, 0, 1, 1});
  CHECK(is(2 > x) == Ints{1, 1, 0, 0});
  CHECK(is(2 >= x) == Ints{1, 1, 1, 0});
  CHECK(is(2 == x) == Ints{0, 0, 1, 0});
  CHECK(is(2 != x) == Ints{1, 1, 0, 1});
  CHECK(is(x.lt(2)) == is(x < 2));
  CHECK(is(x.le(x)) == is(x <= x));
  CHECK(is(x.gt(1.5)) == is(x > 1.5));
  CHECK(is(x.ge(2)) == is(2 <= x));
  CHECK(is((x > 0).logical_and(x < 3)) == Ints{0, 1, 1, 0});
  CHECK(is((x < 1).logical_or(x > 2)) == Ints{1, 0, 0, 1});
}

TEST_CASE("bits take numbers, and where takes two", "[elementwise]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.arange(6);
  CHECK((x & 1).to_vector<int>() == std::vector<int>{0, 1, 0, 1, 0, 1});
  CHECK((x | 4).to_vector<int>() == std::vector<int>{4, 5, 6, 7, 4, 5});
  CHECK((x ^ 7).to_vector<int>() == std::vector<int>{7, 6, 5, 4, 3, 2});
  CHECK_THAT(error([&] { x & 1.5; }),
             Says("KB-F002", "\"bitwise_and_cpu\" not implemented for 'Float'"));
  const Tensor real = where(x > 2, 1.0, 0.5);
  CHECK(real.dtype() == DType::f32);
  CHECK(real.to_vector() == Floats{0.5, 0.5, 0.5, 1, 1, 1});
  CHECK(where(x > 2, 1, -1).dtype() == DType::i64);
}

TEST_CASE("powers of tensors are those of std::pow, with torch's gradients", "[elementwise]") {
  OperatorsUnderTest dut;
  const Floats bases = {2, 0.5, -2, -2, -1.5, 0, 0, 3, 1};
  const Floats exponents = {3, -2, 3, 2, 0.5, 2, 0, 0, 1.7F};
  const Tensor a = dut.tensor({9}, bases).requires_grad_();
  const Tensor b = dut.tensor({9}, exponents).requires_grad_();
  const Tensor y = pow(a, b);
  const Floats values = y.to_vector();
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const double expected = std::pow(double{bases[i]}, double{exponents[i]});
    INFO(bases[i] << " to the power of " << exponents[i]);
    if (std::isnan(expected)) {
      CHECK(std::isnan(values[i]));
    } else {
      // exp(b log a) is off by at most (|b log a| + 2) 2^-23, as pow() documents.
      CHECK(std::abs(values[i] - expected) <= (3 + 2) * 0x1p-23 * std::abs(expected));
    }
  }
  y.sum().backward();
  const Floats of_a = a.grad().to_vector();
  const Floats of_b = b.grad().to_vector();
  CHECK(std::abs(of_a[0] - 12) <= 12 * 5 * 0x1p-23);
  CHECK(std::abs(of_a[2] - 12) <= 12 * 5 * 0x1p-23);  // 3 (-2)^2
  CHECK(of_a[5] == 0);
  CHECK(of_a[7] == 0);
  CHECK(std::abs(of_b[0] - 8 * std::log(2.0)) <= 8 * 6 * 0x1p-23);
  CHECK(of_b[5] == 0);
  CHECK(of_b[6] == 0);
  CHECK(std::isnan(of_b[2]));  // log of a negative number, as in torch
  const Tensor of_number = pow(2, dut.tensor({3}, {-1, 0, 10}));
  CHECK(allclose(of_number, dut.tensor({3}, {0.5, 1, 1024}), 1e-6));
  CHECK(allclose(dut.tensor({1}, {2}).pow(dut.tensor({1}, {2})), dut.tensor({1}, {4}), 1e-6));
  CHECK(pow(a, b.to(DType::i64)).dtype() == DType::f32);
  CHECK(pow(2, dut.torch.arange(3)).allclose(dut.torch.tensor({1, 2, 4}, {3}, {}), 1e-6));
  CHECK_THAT(error([&] { pow(dut.torch.arange(3), dut.torch.arange(3)); }), Says("KB-F002"));
}

TEST_CASE("the largest of a row comes with its index, and alone has the gradient", "[reductions]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 4}, {1, 5, 5, 2, -3, -1, -7, -7}).requires_grad_();
  const auto [most, at_most] = x.max(1);
  CHECK(most.to_vector() == Floats{5, -1});
  CHECK(at_most.to_vector<int>() == std::vector<int>{1, 1});
  const auto [least, at_least] = min(x, -1, true);
  CHECK(least.shape() == Shape{2, 1});
  CHECK(least.to_vector() == Floats{1, -7});
  CHECK(at_least.to_vector<int>() == std::vector<int>{0, 2});
  most.sum().backward();
  CHECK(x.grad().to_vector() == Floats{0, 1, 0, 0, 0, 1, 0, 0});
  CHECK(min(x > 0, 1).second.to_vector<int>() == std::vector<int>{0, 0});
  CHECK(max(x > 2, 1).first.dtype() == DType::boolean);
  CHECK(argmin(x, 1).to_vector<int>() == std::vector<int>{0, 2});
  CHECK(x.argmin().item<int>() == 6);
  CHECK(max(x, x * -1).to_vector() == x.abs().to_vector());
  CHECK(x.minimum(x * -1).to_vector() == (-x.abs()).to_vector());
  CHECK(x.clamp_min(0).to_vector() == relu(x).to_vector());
  CHECK(x.clamp_max(0).to_vector() == (-relu(-x)).to_vector());
}

TEST_CASE("shapes have torch's shorthands", "[shape]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.arange(24).view({2, 3, 4});
  CHECK(x.view(-1).shape() == Shape{24});
  CHECK(x.reshape(24).shape() == Shape{24});
  CHECK(x.flatten(1).shape() == Shape{2, 12});
  CHECK(x.flatten(0, 1).shape() == Shape{6, 4});
  CHECK(x.flatten().shape() == Shape{24});
  CHECK(x.unsqueeze(0).unsqueeze(-1).squeeze().shape() == x.shape());
  CHECK(x.mT().shape() == Shape{2, 4, 3});
  const Tensor row = dut.tensor({2}, {1, 2});
  CHECK(row.repeat({2, 2}).to_vector() == Floats{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(row.repeat({2, 2}).shape() == Shape{2, 4});
  CHECK_THAT(error([&] { x.repeat({2}); }),
             Says("KB-F001", "can not be smaller than number of dimensions"));
  const Tensor matrix = RuntimeContext::tensor({{1, 2}, {3, 4}});
  CHECK(matrix.shape() == Shape{2, 2});
  CHECK(matrix.to_vector() == Floats{1, 2, 3, 4});
  CHECK_THAT(error([&] {
               RuntimeContext::tensor({{1, 2}, {3}});
             }),
             Says("KB-M015", "expected sequence of length 2 at dim 1 (got 1)"));
  const Tensor m = dut.tensor({2, 2}, {1, 2, 3, 4});
  CHECK(mm(m, m).to_vector() == Floats{7, 10, 15, 22});
  CHECK(m.unsqueeze(0).bmm(m.unsqueeze(0)).to_vector() == m.mm(m).to_vector());
  CHECK_THAT(error([&] { mm(m.unsqueeze(0), m); }), Says("KB-F001"));
  CHECK(m.tril().to_vector() == Floats{1, 0, 3, 4});
  CHECK(m.triu(1).to_vector() == Floats{0, 2, 0, 0});
  CHECK(m.triu(1).nonzero().to_vector<int>() == std::vector<int>{0, 1});
  CHECK(equal(m, m * 1));
  CHECK_FALSE(m.equal(m + 1));
  CHECK(m.allclose(m + 1e-6));
  CHECK(m.half().type_as(m).to_vector() == m.to_vector());
  CHECK(dut.torch.randint(3, {50}).to_vector<int>() != std::vector<int>(50, 0));
}

TEST_CASE("a tensor moves to another device, and its gradient back", "[device]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 4}, small_integers(8, 1), on_pes(kRow)).requires_grad_();
  const Tensor moved = x.to("ahbm:1");
  CHECK(moved.device() == 1);
  CHECK(moved.dp() == x.dp());
  const Tensor y = (moved * 3).to("ahbm:0");
  CHECK(y.to_vector() == (x * 3).to_vector());
  y.sum().backward();
  CHECK(x.grad().to_vector() == Floats(8, 3));
  CHECK(x.grad().device() == 0);
  CHECK(x.to("ahbm").storage() == x.storage());
  CHECK(x.to(moved).device() == 1);
  CHECK(x.cpu().is_host());
  CHECK(x.to("cpu").to_vector() == x.to_vector());
  CHECK(dut.torch.arange(3).cpu().to_vector<int>() == std::vector<int>{0, 1, 2});
  CHECK_THAT(error_of<CollectiveError>([&] { x.to("ahbm:2"); }),
             Says("KB-R003", "invalid device ordinal 2: there are devices 0 to 1"));
  CHECK_THAT(error([&] { x.to("cuda"); }), Says("KB-M024"));
  CHECK_THAT(error([&] { x.to("ahbm:x"); }), Says("KB-M024"));
  CHECK_THAT(error([&] { x.to("local"); }), Says("KB-M024", "a backend of init_process_group()"));
  CHECK_THAT(error([&] { x.cpu().to("ahbm"); }), Says("KB-M019"));
}

}  // namespace
}  // namespace kernbench::test::shorthands_test
