// NaN, infinities, ties, and tensors without elements or dimensions.  The expected values are those
// that torch 1.13.1 computes on a CPU.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::special_values_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr float kNan = NAN;
constexpr float kInf = HUGE_VALF;

// As text, so that NaN, whose sign does not matter, equals itself.
std::string text(const Tensor& x) {
  Floats elements = x.to_vector();
  for (float& element : elements) {
    if (std::isnan(element)) element = kNan;
  }
  return fmt::format("{}", fmt::join(elements, " "));
}

// A function's gradients for a gradient of ones.
std::vector<std::string> gradients(const Function& f, std::vector<Tensor> leaves) {
  for (Tensor& leaf : leaves) leaf.requires_grad_();
  sum(f(leaves)).backward();
  std::vector<std::string> all;
  for (const Tensor& leaf : leaves) all.push_back(text(leaf.grad()));
  return all;
}

TEST_CASE("NaN is the largest for whatever picks or orders", "[special_values]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const Tensor x = dut.tensor({6}, {1, kNan, kInf, -kInf, kNan, 3}, DPPolicy::on_one_pe(), dtype);
  CHECK(x.argmax().item<std::int64_t>() == 1);
  for (const Tensor& y : {x.amax(), x.amin(), x.max(), x.min()}) CHECK(text(y) == "nan");
  const auto ordered = [](const std::pair<Tensor, Tensor>& y) {
    return fmt::format("{}: {}", text(y.first), text(y.second));
  };
  CHECK(ordered(x.sort()) == "-inf 1 3 inf nan nan: 3 0 5 2 1 4");
  CHECK(ordered(x.sort(0, true)) == "nan nan inf 3 1 -inf: 1 4 2 5 0 3");
  CHECK(ordered(x.topk(6)) == "nan nan inf 3 1 -inf: 1 4 2 5 0 3");
  CHECK(ordered(x.topk(6, 0, false)) == "-inf 1 3 inf nan nan: 3 0 5 2 1 4");
  CHECK(ordered(x.topk(0)) == ": ");
  const Tensor tied = dut.tensor({3}, {2, 7, 7}, DPPolicy::on_one_pe(), dtype);
  CHECK(tied.argmax().item<std::int64_t>() == 1);
  CHECK(text(clamp(x, -1, 2)) == "1 nan 2 -1 nan 2");
  CHECK(text(clamp(tied, 3, 2)) == "2 2 2");
  CHECK(text(relu(x)) == "1 nan inf 0 nan 3");
}

TEST_CASE("what is ordered or picked keeps the sign of zero, and zeros are equal",
          "[special_values]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const Tensor x = dut.tensor({5}, {0, -0.0F, 1, -0.0F, 0}, DPPolicy::on_one_pe(), dtype);
  const auto ordered = [](const std::pair<Tensor, Tensor>& y) {
    return fmt::format("{}: {}", text(y.first), text(y.second));
  };
  CHECK(ordered(x.sort()) == "0 -0 -0 0 1: 0 1 3 4 2");
  CHECK(ordered(x.sort(0, true)) == "1 0 -0 -0 0: 2 0 1 3 4");
  CHECK(ordered(x.topk(5)) == "1 0 -0 -0 0: 2 0 1 3 4");
  CHECK(ordered(x.topk(2, 0, false)) == "0 -0: 0 1");
  CHECK(ordered(x.narrow(0, 1, 1).max(0)) == "-0: 0");
  const Tensor zeros = dut.tensor({2}, {-0.0F, 0}, DPPolicy::on_one_pe(), dtype);
  CHECK(zeros.argmax().item<int>() == 0);
  CHECK(ordered(zeros.max(0)) == "-0: 0");
  CHECK(ordered(zeros.flip({0}).min(0)) == "0: 0");
}

TEST_CASE("sums of prefixes with infinities and NaN are those of the elements before",
          "[special_values]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const auto sums = [&](const Floats& elements) {
    const auto count = static_cast<std::int64_t>(elements.size());
    return text(cumsum(dut.tensor({count}, elements, DPPolicy::on_one_pe(), dtype), 0));
  };
  CHECK(sums({1, 2, kInf, 3, kInf}) == "1 3 inf inf inf");
  CHECK(sums({1, -kInf, 3, kInf, 2}) == "1 -inf -inf nan nan");
  CHECK(sums({1, kNan, 3, kInf}) == "1 nan nan nan");
  Floats elements(200, 1);  // several stretches
  elements[70] = -kInf;
  elements[150] = kInf;
  float sum = 0;
  const Floats is = cumsum(dut.tensor({200}, elements), 0).to_vector();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    sum += elements[i];
    CHECK((is[i] == sum || (std::isnan(is[i]) && std::isnan(sum))));
  }
}

TEST_CASE("rounding, remainders and functions near 0 have C's special values", "[special_values]") {
  OperatorsUnderTest dut;
  const Floats numbers{-0.5F, 0.5F, 1.5F, -2.5F, -0.0F, 0x1p30F, kInf, -kInf, kNan, 0x1.fffffep22F};
  const Tensor x = dut.tensor({static_cast<std::int64_t>(numbers.size())}, numbers);
  const auto of = [&](const std::function<float(float)>& function) {
    Floats all;
    for (const float number : numbers) all.push_back(function(number));
    for (float& element : all) {
      if (std::isnan(element)) element = kNan;
    }
    return fmt::format("{}", fmt::join(all, " "));
  };
  CHECK(text(floor(x)) == of([](float n) { return std::floor(n); }));
  CHECK(text(ceil(x)) == of([](float n) { return std::ceil(n); }));
  CHECK(text(trunc(x)) == of([](float n) { return std::trunc(n); }));
  CHECK(text(round(x)) == of([](float n) { return std::nearbyint(n); }));
  CHECK(text(sign(x)) == "-1 1 1 -1 0 1 1 -1 0 1");
  CHECK(text(isnan(x)) == "0 0 0 0 0 0 0 0 1 0");
  CHECK(text(isinf(x)) == "0 0 0 0 0 0 1 1 0 0");
  CHECK(text(isfinite(x)) == "1 1 1 1 1 1 0 0 0 1");
  const Tensor ends = dut.tensor({7}, {0x1p-30F, -0x1p-30F, kInf, -kInf, -1, 200, kNan});
  CHECK(text(log1p(ends)) ==
        fmt::format("{} {} inf nan -inf {} nan", 0x1p-30F, -0x1p-30F, std::log1p(200.0F)));
  CHECK(text(expm1(ends)) ==
        fmt::format("{} {} inf -1 {} inf nan", 0x1p-30F, -0x1p-30F, std::expm1(-1.0F)));
  CHECK(text(hypot(dut.tensor({4}, {3e38F, 0, -kInf, 3}), dut.tensor({4}, {0, 0, 1, -4}))) ==
        "3e+38 0 inf 5");
  CHECK(text(nn::functional::softplus(dut.tensor({4}, {200, -200, kInf, kNan}))) ==
        "200 0 inf nan");
  // Signs, as Python's % and C's fmod have them.
  const Tensor a = dut.tensor({4}, {7, -7, 7, -7});
  const Tensor b = dut.tensor({4}, {3, 3, -3, -3});
  CHECK(text(a % b) == "1 2 -2 -1");
  CHECK(text(fmod(a, b)) == "1 -1 1 -1");
  const Tensor zeros = dut.tensor({2}, {0, -0.0F});
  CHECK(text(fmod(zeros, 3)) == "0 -0");
  CHECK(text(fmod(zeros, dut.tensor({2}, {-3, -3}))) == "0 -0");
  CHECK(text(fmod(zeros, 0)) == "nan nan");
  CHECK(text(floor_divide(a, b)) == "2 -3 -3 2");
  const Integers whole{7, -7, std::numeric_limits<std::int64_t>::min(), 5};
  const Tensor n = dut.torch.tensor(std::span<const std::int64_t>(whole), {4}, {});
  CHECK(floor_divide(n, -1).to_vector<std::int64_t>() ==
        Integers{-7, 7, std::numeric_limits<std::int64_t>::min(), -5});
  CHECK((n % 3).to_vector<std::int64_t>() == Integers{1, 2, 1, 2});
  CHECK((n % 0).to_vector<std::int64_t>() == whole);
  CHECK(floor_divide(n, 0).to_vector<std::int64_t>() == Integers(4, -1));
}

TEST_CASE("the smallest of integers may be the smallest there is", "[special_values]") {
  OperatorsUnderTest dut;
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const Integers numbers{5, kLeast, -1, kLeast + 1};
  const Tensor x =
      dut.torch.tensor(std::span<const std::int64_t>(numbers), {4}, {.dp = DPPolicy::on_one_pe()});
  const auto [least, where_least] = x.topk(4, 0, false);
  CHECK(least.to_vector<std::int64_t>() == Integers{kLeast, kLeast + 1, -1, 5});
  CHECK(where_least.to_vector<std::int64_t>() == Integers{1, 3, 2, 0});
  const auto [sorted, order] = x.sort(0, true);
  CHECK(sorted.to_vector<std::int64_t>() == Integers{5, -1, kLeast + 1, kLeast});
  CHECK(order.to_vector<std::int64_t>() == Integers{0, 2, 3, 1});
}

TEST_CASE("gradients of choices with NaN and ties", "[special_values]") {
  OperatorsUnderTest dut;
  const auto leaf = [&](const Floats& elements) {
    return dut.tensor({static_cast<std::int64_t>(elements.size())}, elements);
  };
  using Texts = std::vector<std::string>;
  CHECK(gradients([](auto& x) { return maximum(x[0], x[1]); },
                  {leaf({kNan, 1, 2, 4}), leaf({1, kNan, 2, 3})}) ==
        Texts{"1 1 0.5 1", "1 1 0.5 0"});
  CHECK(gradients([](auto& x) { return minimum(x[0], x[1]); },
                  {leaf({kNan, 1, 2, 4}), leaf({1, kNan, 2, 3})}) ==
        Texts{"1 1 0.5 0", "1 1 0.5 1"});
  CHECK(gradients([](auto& x) { return relu(x[0]); }, {leaf({kNan, -1, 2, 0})}) ==
        Texts{"1 0 1 0"});
  CHECK(gradients([](auto& x) { return clamp(x[0], -1, 1); }, {leaf({kNan, -1, 2, 0})}) ==
        Texts{"0 1 0 1"});
  CHECK(gradients([](auto& x) { return abs(x[0]); }, {leaf({kNan, -1, 0})}) == Texts{"0 -1 0"});
  CHECK(gradients([](auto& x) { return amax(x[0]); }, {leaf({1, 3, 3})}) == Texts{"0 0.5 0.5"});
  CHECK(gradients([](auto& x) { return pow(x[0], 0); }, {leaf({0, kInf})}) == Texts{"0 0"});
}

TEST_CASE("powers of tensors have the special values of std::pow", "[special_values]") {
  OperatorsUnderTest dut;
  const Floats numbers{0, -0.0F, 1,     -1,     2,    -2,    0.5F, -0.5F,
                       3, -3,    1e30F, -1e30F, kInf, -kInf, kNan};
  Floats bases;
  Floats exponents;
  Floats expected;
  for (const float base : numbers) {
    for (const float exponent : numbers) {
      bases.push_back(base);
      exponents.push_back(exponent);
      expected.push_back(std::pow(base, exponent));
    }
  }
  const Shape shape{static_cast<std::int64_t>(bases.size())};
  const Floats y = pow(dut.tensor(shape, bases), dut.tensor(shape, exponents)).to_vector();
  for (std::size_t i = 0; i < y.size(); ++i) {
    INFO(bases[i] << " to the power of " << exponents[i] << " is " << y[i]);
    const bool is_special = !std::isfinite(expected[i]) || expected[i] == 0;
    if (std::isnan(expected[i])) {
      CHECK(std::isnan(y[i]));
    } else if (is_special) {
      CHECK(y[i] == expected[i]);
      CHECK(std::signbit(y[i]) == std::signbit(expected[i]));
    } else {
      // The error of exp(b log a) is bounded so, since |b log a| is at most log(1e30)^2.
      CHECK(std::abs(y[i] - expected[i]) <= 256 * 0x1p-23F * std::abs(expected[i]));
    }
  }
}

TEST_CASE("the largest of a tensor without dimensions is its element", "[special_values]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({}, {3});
  for (const int dim : {0, -1}) {
    for (const auto& [value, index] : {max(x, dim, false), min(x, dim, false), max(x, dim, true)}) {
      CHECK(value.shape() == Shape{});
      CHECK(value.item() == 3);
      CHECK(index.shape() == Shape{});
      CHECK(index.item<std::int64_t>() == 0);
    }
  }
}

TEST_CASE("powers of negative numbers have a sign, whatever the exponent", "[special_values]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({3}, {-2, -1.001F, 0});
  const auto check = [&](double exponent, int steps) {
    const Floats y = pow(x, exponent).to_vector();
    for (std::size_t i = 0; i < 2; ++i) {
      const double exact = std::pow(static_cast<double>(x.to_vector()[i]), exponent);
      CHECK(std::abs(y[i] - exact) <= steps * 0x1p-24 * std::abs(exact));
    }
    CHECK(y[2] == (exponent > 0 ? 0 : kInf));
  };
  check(64, 64);
  check(65, 2 * 65);
  check(66, 2 * 66);
  check(-65, 2 * 65);
}

TEST_CASE("operators on tensors without elements", "[special_values]") {
  OperatorsUnderTest dut;
  const auto none = [&](const Shape& shape) { return dut.tensor(shape, {}); };
  CHECK(text(sum(none({0}))) == "0");
  CHECK(text(sum(none({0, 3}), 0)) == "0 0 0");
  CHECK(text(mean(none({0, 3}), 0)) == "nan nan nan");
  CHECK(text(sum(none({3, 0}), 0)).empty());
  for (const auto& what :
       {error([&] { max(none({0})); }), error([&] { argmax(none({0})); }), error([&] {
          amax(none({0, 3}), 0);
        })}) {
    CHECK_THAT(what, Says("KB-F001", "Expected reduction dim"));
  }
  CHECK(sort(none({0})).second.shape() == Shape{0});
  CHECK(cumsum(none({2, 0}), 1).shape() == Shape{2, 0});
  CHECK(nn::functional::softmax(none({2, 0}), 1).shape() == Shape{2, 0});
  CHECK(cat({none({0, 2}), dut.tensor({1, 2}, {1, 2})}, 0).shape() == Shape{1, 2});
  CHECK((none({0, 3}) + dut.tensor({3}, {1, 2, 3})).shape() == Shape{0, 3});
  CHECK(text(matmul(none({2, 0}), none({0, 1}))) == "0 0");
  CHECK(to_string(none({0})) == "tensor([], dtype=f32)");
  CHECK(to_string(none({2, 0})) == "tensor([[], []], dtype=f32)");
}

TEST_CASE("operators on tensors without dimensions", "[special_values]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({}, {5});
  CHECK(x.dim() == 0);
  CHECK(argmax(x, 0).item<std::int64_t>() == 0);
  CHECK(argmax(x).item<std::int64_t>() == 0);
  CHECK(sum(x, 0).item() == 5);
  CHECK(amax(x, -1).item() == 5);
  CHECK(cumsum(x, 0).item() == 5);
  CHECK(nn::functional::softmax(x, 0).item() == 1);
  CHECK(nn::functional::log_softmax(x, 0).item() == 0);
  CHECK(x.sort().first.item() == 5);
  CHECK(x.topk(1).second.item<std::int64_t>() == 0);
  CHECK(x.unsqueeze(0).shape() == Shape{1});
  CHECK(x.reshape({1, 1}).shape() == Shape{1, 1});
  CHECK(x.flatten().shape() == Shape{1});
  CHECK(x.t().dim() == 0);
  CHECK(stack({x, x}).shape() == Shape{2});
  CHECK(x.expand({2, 3}).sum().item() == 30);
  CHECK(to_string(x) == "tensor(5, dtype=f32)");
  CHECK(error([&] { x[0]; }).find("KB-M017") != std::string::npos);
}

}  // namespace
}  // namespace kernbench::test::special_values_test
