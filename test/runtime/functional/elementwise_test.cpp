#include "runtime/functional/operators.h"
#include "sim_engine/values/element_format.h"
#include "test/runtime/functional/operators_under_test.h"
#include "test/runtime/functional/reference_operators.h"

namespace kernbench::test::functional_elementwise_test {
namespace {

// Whatever the number of elements per PE.
std::vector<Shape> shapes() {
  return {{}, {1}, {5}, {0}, {3, 5}, {1, 7}, {7, 1}, {2, 3, 5}, {3, 0, 2}, {9000}, {3, 9001}};
}

template <class Operation>
Floats each(const Floats& a, const Floats& b, Operation operation) {
  Floats result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(operation(a[i], b[i % b.size()]));
  return result;
}

constexpr auto kAdd = [](float x, float y) { return x + y; };
constexpr auto kMultiply = [](float x, float y) { return x * y; };

// The sum over all but the last dimension.
Floats sum_of_rows(const Floats& x, std::size_t columns) {
  Floats sums(columns, 0);
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % columns] += x[i];
  return sums;
}

TEST_CASE("a + b and its gradients, for any shape and placement", "[elementwise]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow, kColumn, kPartial);
  for (const Shape& shape : shapes()) {
    const Tensor a = dut.leaf(shape, 1, on_pes(pe));
    const Tensor b = dut.leaf(shape, 2, on_pes(pe));
    const Tensor c = a + b;
    CHECK(c.shape() == shape);
    CHECK(c.to_vector() == each(a.to_vector(), b.to_vector(), kAdd));
    const Floats dc = small_integers(shape.numel(), 3);
    c.backward(dut.tensor(shape, dc, gradient_policy(on_pes(pe))));
    CHECK(a.grad().to_vector() == dc);
    CHECK(b.grad().to_vector() == dc);
  }
}

TEST_CASE("a b and its gradients, for any shape and placement", "[elementwise]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow, kColumn);
  for (const Shape& shape : shapes()) {
    const Tensor a = dut.leaf(shape, 1, on_pes(pe));
    const Tensor b = dut.leaf(shape, 2, on_pes(pe));
    const Tensor c = a * b;
    CHECK(c.to_vector() == each(a.to_vector(), b.to_vector(), kMultiply));
    const Floats dc = small_integers(shape.numel(), 3);
    c.backward(dut.tensor(shape, dc, on_pes(pe)));
    CHECK(a.grad().to_vector() == each(dc, b.to_vector(), kMultiply));
    CHECK(b.grad().to_vector() == each(dc, a.to_vector(), kMultiply));
  }
}

TEST_CASE("a vector is added to each row, and multiplied with each", "[elementwise]") {
  OperatorsUnderTest dut;
  struct Case {
    Shard of_x;
    Shard of_vector;
    Shard of_gradient;
  };
  const auto [of_x, of_vector, of_gradient] =
      GENERATE(Case{kR, kR, kR}, Case{kColumn, kColumn, kColumn}, Case{kColumn, kRow, kColumn},
               Case{kRow, kR, kPartial});
  for (const Shape& shape :
       {Shape{3, 5}, Shape{1, 1}, Shape{2, 3, 5}, Shape{2, 9001}, Shape{0, 3}}) {
    const std::int64_t columns = shape[shape.rank() - 1];
    const Floats dy = small_integers(shape.numel(), 3);
    for (const bool is_product : {false, true}) {
      const Tensor x = dut.leaf(shape, 1, on_pes(of_x));
      const Tensor v = dut.leaf({columns}, 2, on_pes(of_vector));
      const Tensor y = is_product ? x * v : x + v;
      CHECK(y.to_vector() == (is_product ? v * x : v + x).to_vector());
      CHECK(y.dp() == x.dp());
      const Floats of_v = v.to_vector();
      CHECK(y.to_vector() ==
            (is_product ? each(x.to_vector(), of_v, kMultiply) : each(x.to_vector(), of_v, kAdd)));
      y.backward(dut.tensor(shape, dy, on_pes(of_x)));
      const auto width = static_cast<std::size_t>(columns);
      CHECK(v.grad().dp() == on_pes(of_gradient));
      CHECK(x.grad().to_vector() == (is_product ? each(dy, of_v, kMultiply) : dy));
      CHECK(v.grad().to_vector() ==
            sum_of_rows(is_product ? each(dy, x.to_vector(), kMultiply) : dy, width));
    }
  }
}

TEST_CASE("a sum of holders may be multiplied with what all have", "[elementwise]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.leaf({3, 4}, 1, on_pes(kPartial));
  const Tensor b = dut.leaf({3, 4}, 2, on_pes(kR));
  const Tensor c = a * b;
  CHECK(c.dp() == on_pes(kPartial));
  CHECK(c.to_vector() == each(a.to_vector(), b.to_vector(), kMultiply));
  sum(c).backward();
  CHECK(a.grad().dp() == on_pes(kR));
  CHECK(a.grad().to_vector() == b.to_vector());
  CHECK(b.grad().dp() == on_pes(kPartial));
  CHECK(b.grad().to_vector() == a.to_vector());
}

TEST_CASE("relu is 0 below 0, and so is its gradient at and below 0", "[elementwise]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Tensor x =
      dut.tensor({1, 5}, {-2, -0.5F, 0, 0.5F, 3}, on_pes(kColumn), dtype).requires_grad_();
  const Tensor y = relu(x);
  CHECK(y.to_vector() == Floats{0, 0, 0, 0.5F, 3});
  CHECK(y.dp() == on_pes(kColumn));
  y.backward(dut.tensor({1, 5}, {1, 2, 3, 4, 5}, on_pes(kColumn), dtype));
  CHECK(x.grad().to_vector() == Floats{0, 0, 0, 4, 5});
}

TEST_CASE("clone has memory of its own, and passes gradients", "[elementwise]") {
  OperatorsUnderTest dut;
  Tensor x = dut.leaf({2, 3}, 1, on_pes(kRow));
  const Floats before = x.to_vector();
  const Tensor y = clone(x);
  x.copy_(RuntimeContext::tensor(Floats(6, 9), {2, 3}));
  CHECK(y.to_vector() == before);
  CHECK(y.dp() == x.dp());
  sum(y).backward();
  CHECK(x.grad().to_vector() == Floats(6, 1));
}

TEST_CASE("a - b and its gradients", "[elementwise]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow, kColumn, kPartial);
  const Tensor a = dut.leaf({3, 4}, 1, on_pes(pe));
  const Tensor b = dut.leaf({3, 4}, 2, on_pes(pe));
  const Tensor c = a - b;
  CHECK(c.to_vector() ==
        each(a.to_vector(), b.to_vector(), [](float x, float y) { return x - y; }));
  const Floats dc = small_integers(12, 3);
  c.backward(dut.tensor({3, 4}, dc, gradient_policy(on_pes(pe))));
  CHECK(a.grad().to_vector() == dc);
  CHECK(b.grad().to_vector() == each(dc, {-1}, kMultiply));
  const Tensor x = dut.leaf({3, 4}, 1, on_pes(kR));
  const Tensor v = dut.leaf({4}, 2, on_pes(kR));
  sum(x - v).backward();
  CHECK(v.grad().to_vector() == Floats(4, -3));
}

TEST_CASE("a tensor times a number, from either side", "[elementwise]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow, kColumn, kPartial);
  const Tensor x = dut.leaf({3, 4}, 1, on_pes(pe));
  const Tensor y = 0.5 * (x * 4);
  CHECK(y.dp() == on_pes(pe));
  CHECK(y.to_vector() == each(x.to_vector(), {2}, kMultiply));
  sum(y).backward();
  CHECK(x.grad().to_vector() == Floats(12, 2));
}

TEST_CASE("a number is one of f32, and the product is rounded once", "[elementwise]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const auto scaled = [&](float x, double number) {
    return (dut.tensor({1}, {x}, DPPolicy::on_one_pe(), dtype) * number).item();
  };
  // No factor here is a number of f16: one is too large, one too small, and one lies between two.
  CHECK(scaled(std::ldexp(1.0F, -10), 65536) == 64);
  CHECK(scaled(32768, std::ldexp(1.0, -30)) == std::ldexp(1.0F, -15));
  Floats elements;
  for (int i = -100; i <= 100; ++i) {
    elements.push_back(sim::round_to(dtype, static_cast<float>(i) * 0.37F));
  }
  const Shape shape{static_cast<std::int64_t>(elements.size())};
  for (const double number : {1 / 3.0, 0.1, 1e-3}) {
    Tensor x = dut.tensor(shape, elements, on_pes(kColumn), dtype);
    x.requires_grad_();
    const Tensor y = x * number;
    y.backward(dut.tensor(shape, elements, on_pes(kColumn), dtype));
    Floats expected;
    for (const float element : elements) {
      expected.push_back(sim::round_to(dtype, element * static_cast<float>(number)));
    }
    CHECK(y.dtype() == dtype);
    CHECK(y.to_vector() == expected);
    CHECK(x.grad().to_vector() == expected);
  }
}

double gelu_of(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST_CASE("gelu is torch's, by default with erf", "[elementwise]") {
  OperatorsUnderTest dut;
  Floats x = sixteenths(65, 1);
  for (const float far : {-30.0F, -13.5F, -6.0F, -4.0F, 4.0F, 6.0F, 30.0F}) {
    x.push_back(far);
  }
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const Floats y = nn::functional::gelu(dut.tensor(shape, x, on_pes(kColumn))).to_vector();
  Numbers expected;
  for (const float element : x) {
    const ErfGelu gelu(element);
    CHECK(gelu.formula_error <= 0.75e-7);
    CHECK(gelu.phi.error <= 6e-7);  // as the header says
    expected.push_back(gelu.value);
  }
  check_within(y, expected);
  CHECK(y.back() == 30);
  CHECK(y[65] == 0);
  CHECK(nn::functional::gelu(dut.tensor({2}, {1e30F, -1e30F})).to_vector() == Floats{1e30F, 0});
  // PyTorch: 0.8413447, -0.1586553 and 1.9544997; by tanh 0.8411920, -0.1588080 and 1.9545977.
  const Tensor some = dut.tensor({3}, {1, -1, 2});
  const Floats exact = nn::functional::gelu(some).to_vector();
  const Floats by_tanh = nn::functional::gelu(some, nn::functional::Approximate::tanh).to_vector();
  CHECK(std::abs(exact[0] - 0.8413447) <= 3e-7);
  CHECK(std::abs(exact[1] + 0.1586553) <= 3e-7);
  CHECK(std::abs(exact[2] - 1.9544997) <= 6e-7);
  CHECK(std::abs(by_tanh[0] - 0.8411920) <= 3e-7);
}

TEST_CASE("gelu is torch's with approximate='tanh'", "[elementwise]") {
  OperatorsUnderTest dut;
  const Floats x = sixteenths(65, 1);
  const Tensor y =
      nn::functional::gelu(dut.tensor({65}, x, on_pes(kColumn)), nn::functional::Approximate::tanh);
  Numbers expected;
  for (const float element : x) expected.push_back(TanhGelu(element).value);
  check_within(y.to_vector(), expected);
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(std::abs(expected[i].value - gelu_of(x[i])) <= 1e-15);  // the same, by a sigmoid
  }
  CHECK_THROWS_MATCHES(nn::functional::gelu(dut.leaf({2}, 1, on_pes(kPartial))), DeviceError,
                       Says("KB-F003", "gelu"));
}

TEST_CASE("operators on elements round once to their type", "[elementwise]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.tensor({1}, {2048}, DPPolicy::on_one_pe(), DType::f16);
  const Tensor b = dut.tensor({1}, {3}, DPPolicy::on_one_pe(), DType::f16);
  CHECK((a + b).item() == 2052);  // 2051 is none; the even neighbour
}

TEST_CASE("elements that do not belong together are refused", "[elementwise]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 3}, 1, on_pes(kR));
  CHECK_THAT(error([&] { x + dut.leaf({2, 4}, 1, on_pes(kR)); }), Says("KB-F001", "add"));
  CHECK_THAT(error([&] { x* dut.leaf({2}, 1, on_pes(kR)); }), Says("KB-F001", "mul"));
  CHECK_THAT(error([&] { x + dut.leaf({2, 3}, 1, on_pes(kRow)); }), Says("KB-F003", "add"));
  CHECK_THAT(error([&] { x + dut.leaf({3}, 1, on_pes(kColumn)); }), Says("KB-F003", "add"));
  CHECK_THAT(error([&] {
               dut.leaf({2, 3}, 1, on_pes(kColumn)) + dut.leaf({3}, 1, on_pes(kR));
             }),
             Says("KB-F003", "add"));
  CHECK_THAT(error([&] {
               x + dut.leaf({2, 3}, 1, on_pes(kPartial));
             }),
             Says("KB-F003", "all_reduce it first"));
  const Tensor partial = dut.tensor({2, 3}, Floats(6), on_pes(kPartial), DType::f32, "p");
  CHECK_THAT(error([&] { partial* partial; }), Says("KB-F003", "mul"));
  CHECK_THAT(error([&] { relu(partial); }), Says("KB-F003", "relu", "'p' [2, 3] f32", "device 0",
                                                 "all_reduce", ".pe = kb::Shard::replicate"));
  CHECK_THAT(error([&] { relu(Tensor()); }), Says("KB-M001", "relu", "not defined"));
}

TEST_CASE("a kernel loads at most 16 tensors after its intermediate values are computed",
          "[compile]") {
  constexpr int kInputs = 16;
  const Shape shape{16, 64};
  OperatorsUnderTest dut;
  std::vector<Tensor> inputs;
  for (int i = 0; i < kInputs; ++i) {
    inputs.push_back(dut.tensor(shape, sixteenths(shape.numel(), i)));
  }
  // Each intermediate value is read by the host, if asked for: then it is a load of its own.
  const auto sum = [&](const std::vector<Tensor>& of, bool reads) {
    std::vector<Tensor> doubled;
    for (const Tensor& x : of) doubled.push_back(x * 2);
    Tensor y = doubled[0] + of[0];
    for (std::size_t i = 1; i < of.size(); ++i) y = y + (doubled[i] + of[i]);
    for (const Tensor& x : doubled) {
      if (reads) (void)x.to_vector();
    }
    return y;
  };
  const Floats expected = sum(inputs, false).to_vector();
  for (const bool reads : {false, true}) {
    const std::size_t before = dut.torch.engine().results().size();
    const Tensor y = compile([&](const std::vector<Tensor>& of) { return sum(of, reads); })(inputs);
    CHECK(y.to_vector() == expected);
    const auto& results = dut.torch.engine().results();
    Bytes most = 0;
    for (std::size_t i = before; i < results.size(); ++i) {
      most = std::max(most, results[i].loaded);
    }
    CHECK(most == kInputs * shape.numel() * 4);
    CHECK((results.size() - before == 1) == !reads);
  }
}

}  // namespace
}  // namespace kernbench::test::functional_elementwise_test
