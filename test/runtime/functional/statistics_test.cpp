// Variances, products and logs of sums of exponentials, against plain loops and finite differences;
// and what rearranges or chooses elements.

#include <type_traits>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::statistics_test {
namespace {

using Reals = std::vector<double>;

struct Row {
  std::string name;
  std::function<Tensor(const Tensor&)> of;  // of each row
  std::function<double(const Reals&)> reference;
};

double variance(const Reals& x, double less) {
  double mean = 0;
  for (const double element : x) mean += element / static_cast<double>(x.size());
  double sum = 0;
  for (const double element : x) sum += (element - mean) * (element - mean);
  return sum / (static_cast<double>(x.size()) - less);
}

std::vector<Row> rows() {
  return {
      {"var", [](auto& x) { return x.var(1); }, [](auto& x) { return variance(x, 1); }},
      {"var, biased", [](auto& x) { return x.var(-1, false); },
       [](auto& x) { return variance(x, 0); }},
      {"std", [](auto& x) { return x.std(1); }, [](auto& x) { return std::sqrt(variance(x, 1)); }},
      {"prod", [](auto& x) { return x.prod(1); },
       [](auto& x) {
         double product = 1;
         for (const double element : x) product *= element;
         return product;
       }},
      {"logsumexp", [](auto& x) { return x.logsumexp(1); },
       [](auto& x) {
         double sum = 0;
         for (const double element : x) sum += std::exp(element);
         return std::log(sum);
       }}};
}

TEST_CASE("statistics of rows, and their gradients", "[statistics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const double unit = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  OperatorsUnderTest dut;
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kRow)}) {
    for (const Row& row : rows()) {
      INFO(row.name << " " << name_of(dtype));
      const Floats elements{0.5F, -1.25F, 2, 1, -0.75F, 1.5F, -2, 0.25F, 1, 1.75F};
      const Tensor x = dut.tensor({2, 5}, elements, dp, dtype).requires_grad_();
      const Tensor y = row.of(x);
      CHECK(y.shape() == Shape{2});
      CHECK(y.dtype() == dtype);
      y.backward(dut.tensor({2}, {1, 1}, y.dp(), dtype));
      for (std::int64_t i = 0; i < 2; ++i) {
        const Reals own(elements.begin() + 5 * i, elements.begin() + 5 * (i + 1));
        const auto check = [&](float is, double wanted) {
          CHECK(std::abs(is - wanted) <= std::max(1.0, std::abs(wanted)) * (unit + 16 * 0x1p-23));
        };
        check(y.at({i}), row.reference(own));
        for (std::size_t k = 0; k < 5; ++k) {
          Reals above = own;
          Reals below = own;
          above[k] += 1e-5;
          below[k] -= 1e-5;
          check(x.grad().at({i, static_cast<std::int64_t>(k)}),
                (row.reference(above) - row.reference(below)) / 2e-5);
        }
      }
    }
  }
}

TEST_CASE("statistics of everything, of integers and of nothing", "[statistics]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 6});
  CHECK(x.var().item() == Approx(14.0 / 3));
  CHECK(x.std({0, 1}, true, true).shape() == Shape{1, 1});
  CHECK(x.prod().item() == 36);
  CHECK(x.prod(0, true).to_vector() == Floats{3, 12});
  CHECK(x.to(DType::i32).prod().dtype() == DType::i64);
  CHECK((x > 1).prod().item<int>() == 0);
  CHECK(dut.tensor({0}, {}).prod().item() == 1);
  CHECK(std::isnan(dut.tensor({1}, {3}).var().item()));
  CHECK(logsumexp(dut.tensor({2}, {1000, 1000}), 0).item() == Approx(1000 + std::log(2)));
  CHECK(logsumexp(dut.tensor({2}, {-HUGE_VALF, -HUGE_VALF}), 0).item() == -HUGE_VALF);
  CHECK(logsumexp(x, {0, 1}, true).shape() == Shape{1, 1});
  CHECK_THAT(error([&] { x.to(DType::i64).var(); }), Says("KB-F002", "var", "floating point"));
  CHECK_THAT(error([&] {
               dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kColumn)).prod(1);
             }),
             Says("KB-F003"));
}

TEST_CASE("a flag is not a dimension", "[statistics]") {
  static_assert(!std::is_constructible_v<Dimensions, bool>);
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {1, 3, 5, 7});
  CHECK(x.var(false).item() == 5);
  CHECK(var(x, true).item() == x.var().item());
  CHECK(x.std(false).shape() == Shape{});
  CHECK(std(x, false).item() == Approx(std::sqrt(5.0)));
}

// The figures are those of torch 1.13.1.
TEST_CASE("norms of any order, and their gradients", "[statistics]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({3}, {3, -4, 0}).requires_grad_();
  const auto check = [&](double p, double wanted, const Floats& slopes) {
    x.zero_grad();
    const Tensor y = norm(x, p);
    CHECK(std::abs(y.item() - wanted) <= 1e-6 * wanted);
    y.backward();
    const Floats is = x.grad().to_vector();
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(is[i] - slopes[i]) <= 2e-6F);
  };
  check(3, 4.49794149, {0.444851339F, -0.790846825F, 0});
  check(
      0.5, 7 + 4 * std::sqrt(3.0),
      {static_cast<float>(1 + 2 / std::sqrt(3.0)), static_cast<float>(-1 - std::sqrt(3.0) / 2), 0});
  check(0, 2, {0, 0, 0});
  check(-HUGE_VAL, 0, {0, 0, 0});
  const Tensor zero = dut.tensor({2, 2}, {0, 0, 1, -2}).requires_grad_();
  const Tensor rows = norm(zero, 4, 1, true);
  CHECK(rows.shape() == Shape{2, 1});
  rows.sum().backward();
  CHECK(zero.grad().to_vector()[0] == 0);
  CHECK(norm(zero[1], -1).item() == 2.0F / 3);
}

TEST_CASE("prod of one factor is a tensor of its own", "[statistics]") {
  const DType dtype = GENERATE(DType::f16, DType::f32, DType::i64);
  OperatorsUnderTest dut;
  const auto stays = [](const Tensor& x, const Tensor& product) {
    const Floats before = product.to_vector();
    x.add_(1);
    CHECK(product.to_vector() == before);
  };
  for (const bool keepdim : {false, true}) {
    const Tensor x = dut.tensor({1, 2}, {3, 4}, DPPolicy::on_one_pe(), dtype);
    const Tensor product = x.prod(0, keepdim);
    CHECK(product.shape() == (keepdim ? Shape{1, 2} : Shape{2}));
    stays(x, product);
    const Tensor point = dut.tensor({}, {3}, DPPolicy::on_one_pe(), dtype);
    stays(point, point.prod(0, keepdim));
  }
  const Tensor point = dut.tensor({}, {3}, DPPolicy::on_one_pe(), dtype);
  stays(point, point.prod());
}

TEST_CASE("std has no infinite step between, and a constant row no slope", "[statistics]") {
  OperatorsUnderTest dut;
  const Tensor large = dut.tensor({2}, {-1000, 1000}, DPPolicy::on_one_pe(), DType::f16);
  CHECK(large.std(0, false).item() == 1000);  // its variance, 10^6, is above f16's 65504
  const Tensor x = dut.tensor({2, 3}, {2, 2, 2, 1, 2, 3}).requires_grad_();
  const Tensor y = x.std(1);
  CHECK(y.to_vector() == Floats{0, 1});
  y.sum().backward();
  const Floats dx = x.grad().to_vector();
  CHECK(Floats(dx.begin(), dx.begin() + 3) == Floats{0, 0, 0});
  CHECK(dx[3] == Approx(-0.5));
}

TEST_CASE("flip, roll and repeat_interleave rearrange, and gradients go back", "[indexing]") {
  const DType dtype = GENERATE(DType::f16, DType::f32, DType::i64, DType::f8e5m2);
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, on_pes(kR), dtype);
  CHECK(x.flip({1}).to_vector() == Floats{3, 2, 1, 6, 5, 4});
  CHECK(x.flip({0, -1}).to_vector() == Floats{6, 5, 4, 3, 2, 1});
  CHECK(x.roll(1, 1).to_vector() == Floats{3, 1, 2, 6, 4, 5});
  CHECK(x.roll(-4, 1).to_vector() == Floats{2, 3, 1, 5, 6, 4});
  const Tensor flat = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DPPolicy::on_one_pe(), dtype);
  CHECK(flat.roll(1).to_vector() == Floats{6, 1, 2, 3, 4, 5});
  CHECK(flat.roll(1).shape() == Shape{2, 3});
  CHECK(flat.repeat_interleave(2).to_vector() == Floats{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
  CHECK(flat.repeat_interleave(2).shape() == Shape{12});
  CHECK_FALSE(x.flip({}).is_alias_of(x));
  CHECK(x.flip({}).to_vector() == x.to_vector());
  CHECK_THAT(error([&] { x.flip({0, -2}); }), Says("KB-F001", "flip", "multiple times"));
  CHECK(x.repeat_interleave(2, 0).to_vector() == Floats{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  const Tensor w = dut.leaf({3}, 1);
  (w.repeat_interleave(2).flip({0}) * dut.tensor({6}, {1, 2, 3, 4, 5, 6})).sum().backward();
  CHECK(w.grad().to_vector() == Floats{11, 7, 3});
  CHECK_THAT(error([&] {
               dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kRow)).flip({0});
             }),
             Says("KB-F003", "flip"));
}

TEST_CASE("masked_select takes what a mask says", "[indexing]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 3}, 1);
  const Tensor mask = dut.tensor({3}, {1, 0, 1}) > 0;
  const Floats all = x.to_vector();
  const Tensor y = masked_select(x, mask);
  CHECK(y.to_vector() == Floats{all[0], all[2], all[3], all[5]});
  y.sum().backward();
  CHECK(x.grad().to_vector() == Floats{1, 0, 1, 1, 0, 1});
  CHECK(x.masked_select(x > 100).shape() == Shape{0});
  CHECK_THAT(error([&] { masked_select(x, x); }),
             Says("KB-F002", "expected BoolTensor or ByteTensor for mask"));
}

TEST_CASE("products of vectors are torch's", "[matmul]") {
  OperatorsUnderTest dut;
  const Tensor m = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor v = dut.tensor({3}, {1, 0, -1}).requires_grad_();
  const Tensor u = dut.tensor({2}, {1, 2});
  CHECK(matmul(m, v).to_vector() == Floats{-2, -2});
  CHECK(m.mv(v).shape() == Shape{2});
  CHECK(matmul(u, m).to_vector() == Floats{9, 12, 15});
  CHECK(v.dot(v).shape() == Shape{});
  CHECK(v.dot(v).item() == 2);
  CHECK(outer(u, v).to_vector() == Floats{1, 0, -1, 2, 0, -2});
  (m.mv(v) * u).sum().backward();
  CHECK(v.grad().to_vector() == Floats{9, 12, 15});
  CHECK_THAT(error([&] { dot(m, v); }), Says("KB-F001", "1D tensors expected, but got 2D and 1D"));
}

TEST_CASE("linspace and eye are torch's", "[torch]") {
  OperatorsUnderTest dut;
  CHECK(dut.torch.linspace(0, 1, 5).to_vector() == Floats{0, 0.25F, 0.5F, 0.75F, 1});
  CHECK(dut.torch.linspace(3, 7, 1).to_vector() == Floats{3});
  CHECK(dut.torch.linspace(0, 0.3, 4).at({3}) == 0.3F);
  CHECK(dut.torch.linspace(0, 1, 0).numel() == 0);
  CHECK(dut.torch.eye(2).to_vector() == Floats{1, 0, 0, 1});
  CHECK(dut.torch.eye(1, 3, {.dtype = DType::i64}).dtype() == DType::i64);
  CHECK_THAT(error([&] { dut.torch.linspace(0, 1, -1); }), Says("KB-F001", "non-negative"));
}

}  // namespace
}  // namespace kernbench::test::statistics_test
