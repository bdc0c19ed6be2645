// Random choices, medians, additions at indices, and assignments to parts of tensors.

#include <algorithm>
#include <numbers>
#include <set>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::choices_test {
namespace {

using Integers = std::vector<std::int64_t>;

TEST_CASE("multinomial chooses in proportion, and never what has no weight", "[random]") {
  OperatorsUnderTest dut;
  dut.torch.manual_seed(5);
  const Tensor weights = dut.tensor({4}, {1, 0, 2, 5});
  const Integers drawn = multinomial(weights, 8000, true).to_vector<std::int64_t>();
  Integers counts(4);
  for (const std::int64_t i : drawn) ++counts[static_cast<std::size_t>(i)];
  CHECK(counts[1] == 0);
  // Five standard deviations of binomial distributions.
  CHECK(std::abs(static_cast<double>(counts[0]) - 1000) < 5 * std::sqrt(8000 * 0.125 * 0.875));
  CHECK(std::abs(static_cast<double>(counts[3]) - 5000) < 5 * std::sqrt(8000 * 0.625 * 0.375));
  const Integers all = weights.multinomial(3).to_vector<std::int64_t>();
  CHECK(std::set(all.begin(), all.end()) == std::set<std::int64_t>{0, 2, 3});
}

TEST_CASE("random choices are the same with every placement", "[random]") {
  OperatorsUnderTest dut;
  const auto chosen = [&](const DPPolicy& dp) {
    dut.torch.manual_seed(7);
    const Tensor x = dut.tensor({4, 3}, Floats(12, 0.5F), dp);
    const Integers indices = multinomial(x, 2).to_vector<std::int64_t>();
    const Integers bits = bernoulli(x).to_vector<std::int64_t>();
    return std::pair(indices, bits);
  };
  const auto wanted = chosen(DPPolicy::on_one_pe());
  CHECK(chosen(on_pes(kRow)) == wanted);
  CHECK(chosen(on_pes(kR)) == wanted);
  CHECK(bernoulli(dut.tensor({2}, {0, 1})).to_vector() == Floats{0, 1});
}

TEST_CASE("multinomial refuses what are no weights, in torch's words", "[random]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2}, {1, 2});
  CHECK_THAT(error([&] { (void)multinomial(x, 3); }), Says("KB-F001", "without replacement"));
  CHECK_THAT(error([&] { (void)multinomial(x, 0); }), Says("KB-F001", "n_sample <= 0"));
  CHECK_THAT(error([&] { (void)multinomial(-x, 1); }), Says("KB-F001", "element < 0"));
  CHECK_THAT(error([&] { (void)multinomial(x * 0, 1); }), Says("KB-F001", "probabilities <= 0"));
}

TEST_CASE("randperm has each number once", "[random]") {
  OperatorsUnderTest dut;
  const Integers numbers = dut.torch.randperm(20).to_vector<std::int64_t>();
  CHECK(std::set(numbers.begin(), numbers.end()).size() == 20);
  CHECK_FALSE(std::ranges::is_sorted(numbers));
  CHECK(std::ranges::max(numbers) == 19);
  CHECK(dut.torch.randperm(0).numel() == 0);
}

TEST_CASE("the median is the lower one in the middle, and NaN if there is one", "[sort]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 4}, {4, 1, 3, 2, 5, 5, 0, 9}).requires_grad_();
  const auto [values, indices] = x.median(1);
  CHECK(values.to_vector() == Floats{2, 5});
  CHECK(indices.to_vector<std::int64_t>() == Integers{3, 0});
  CHECK(x.median().item() == 3);
  values.sum().backward();
  CHECK(x.grad().to_vector() == Floats{0, 0, 0, 1, 1, 0, 0, 0});
  CHECK(std::isnan(dut.tensor({3}, {1, NAN, 3}).median().item()));
  CHECK(dut.tensor({3}, {1, NAN, 3}).median(0).second.item<int>() == 1);
  CHECK(std::isnan(dut.torch.zeros({0}).median().item()));
}

TEST_CASE("index_add adds rows, and gives back their gradients", "[scatter]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kColumn)}) {
    const Tensor x = dut.leaf({3, 2}, 1, dp, dtype);
    const Tensor src = dut.leaf({3, 2}, 2, dp, dtype);
    const Tensor index =
        dut.tensor({3}, {2, 0, 2}, {.num_cubes = 1, .num_pes = dp.num_pes}, DType::i64);
    const Tensor y = index_add(x, 0, index, src, 2);
    for (std::int64_t c = 0; c < 2; ++c) {
      CHECK(y.at({0, c}) == x.at({0, c}) + 2 * src.at({1, c}));
      CHECK(y.at({1, c}) == x.at({1, c}));
      CHECK(y.at({2, c}) == x.at({2, c}) + 2 * (src.at({0, c}) + src.at({2, c})));
    }
    y.backward(dut.tensor({3, 2}, {1, 2, 3, 4, 5, 6}, dp, dtype));
    CHECK(x.grad().to_vector() == Floats{1, 2, 3, 4, 5, 6});
    CHECK(src.grad().to_vector() == Floats{10, 12, 2, 4, 10, 12});
    const Tensor sums = dut.torch.zeros_like(x);
    sums.index_add_(0, index, src.detach());
    CHECK(sums.at({-1, 0}) == src.at({0, 0}) + src.at({2, 0}));
    const char* const code = dp == on_pes(kColumn) ? "KB-F003" : "KB-F001";
    CHECK_THAT(error([&] { (void)index_add(x, 1, index, src); }), Says(code));
  }
}

TEST_CASE("what an expression returns is written into, and a variable becomes a handle",
          "[in_place]") {
  OperatorsUnderTest dut;
  Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4});
  x[0] = dut.tensor({2}, {7, 8});
  x.select(1, 1) = 5;
  x[-1][0] = 6.5;
  CHECK(x.to_vector() == Floats{7, 5, 6.5, 5});
  Tensor row = x[0];
  row = x[1];
  CHECK(x.to_vector() == Floats{7, 5, 6.5, 5});
  CHECK(x.at({-1, -2}) == 6.5F);
  const Tensor counts = dut.torch.zeros({3}, {.dp = DPPolicy::on_one_pe()});
  const Tensor at = dut.tensor({2}, {1, 1}, DPPolicy::on_one_pe(), DType::i64);
  counts.scatter_add_(0, at, row);
  counts.scatter_(0, at * 0, 2);
  CHECK(counts.to_vector() == Floats{2, 11.5, 0});
}

TEST_CASE("gather takes fewer places than there are, as torch's", "[indexing]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({3, 2}, {1, 2, 3, 4, 5, 6}).requires_grad_();
  const Tensor y = x.gather(1, dut.tensor({2, 1}, {1, 0}, DPPolicy::on_one_pe(), DType::i64));
  CHECK(y.to_vector() == Floats{2, 3});
  y.sum().backward();
  CHECK(x.grad().to_vector() == Floats{0, 1, 1, 0, 0, 0});
}

TEST_CASE("logarithms of sums and powers have torch's special values", "[special_values]") {
  OperatorsUnderTest dut;
  CHECK(dut.torch.zeros({2, 0}).logsumexp(1).to_vector() == Floats{-HUGE_VALF, -HUGE_VALF});
  const Tensor n = dut.tensor({2}, {1, 2}, DPPolicy::on_one_pe(), DType::i64);
  CHECK(std::abs(n.logsumexp(0).item() - 2.3132617F) <= 0x1p-22F);
  const Tensor low = dut.tensor({2}, {-HUGE_VALF, -2});
  CHECK(low.pow(2.5).at({0}) == HUGE_VALF);
  CHECK(std::isnan(low.pow(2.5).at({1})));
  CHECK(low.pow(-2.5).at({0}) == 0);
  CHECK(flip(dut.tensor({}, {3}), {0}).item() == 3);
  CHECK(roll(dut.tensor({}, {3}), 1).item() == 3);
}

TEST_CASE("inverse and hyperbolic functions have C's values at their ends", "[special_values]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({5}, {HUGE_VALF, -HUGE_VALF, 1, -1, -0.0F});
  constexpr auto kHalf = static_cast<float>(std::numbers::pi / 2);
  CHECK(atan(x).at({0}) == kHalf);
  CHECK(atan(x).at({1}) == -kHalf);
  CHECK(asin(x).at({2}) == kHalf);
  CHECK(acos(x).at({3}) == 2 * kHalf);
  CHECK(acos(x).at({2}) == 0);
  for (const Tensor& y : {asin(x), acos(x)}) CHECK(std::isnan(y.at({0})));
  for (const Tensor& y : {asin(x), atan(x), sinh(x)}) CHECK(std::signbit(y.at({4})));
  const Tensor large = dut.tensor({2}, {89, -89});  // e^89 is no f32
  CHECK(std::abs(sinh(large).at({1}) / std::sinh(-89.0) - 1) <= 64 * 0x1p-24);
  CHECK(std::abs(cosh(large).at({0}) / std::cosh(89.0) - 1) <= 64 * 0x1p-24);
  for (const Tensor& y : {asinh(x), atanh(x * 0.5)}) CHECK(std::signbit(y.at({4})));
  for (const Tensor& y : {asinh(x), acosh(x), atanh(x)}) CHECK_FALSE(std::isfinite(y.at({0})));
  CHECK(atanh(x).at({2}) == HUGE_VALF);
  CHECK(std::isnan(acosh(x).at({3})));
  const Tensor huge = dut.tensor({2}, {1e30F, -1e30F});  // their squares are no f32
  CHECK(std::abs(asinh(huge).at({1}) / std::asinh(-1e30) - 1) <= 4 * 0x1p-24);
  CHECK(std::abs(acosh(huge).at({0}) / std::acosh(1e30) - 1) <= 4 * 0x1p-24);
}

}  // namespace
}  // namespace kernbench::test::choices_test
