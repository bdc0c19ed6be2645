// Integers, bool and the 8-bit types in operators: torch's rules of types, and exact values.

#include <limits>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::dtypes_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr DType kBool = DType::boolean;

std::vector<DPPolicy> policies() {
  return {DPPolicy::on_one_pe(), on_pes(kR), on_pes(kRow), on_pes(kColumn), on_all(kRow, kColumn)};
}

class TypesUnderTest : public OperatorsUnderTest {
 public:
  Tensor integers(const Shape& shape, const Integers& elements,
                  const DPPolicy& dp = DPPolicy::on_one_pe(), DType dtype = DType::i64) {
    return torch.tensor(std::span<const std::int64_t>(elements), shape, {.dtype = dtype, .dp = dp});
  }
  Tensor of(DType dtype, const Shape& shape = {2}) {
    return torch.ones(shape, {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
  }
};

Integers values(const Tensor& x) {
  return x.to_vector<std::int64_t>();
}

TEST_CASE("tensors of integers are made, written and read exactly", "[dtypes]") {
  TypesUnderTest dut;
  const Integers numbers{kMost, -kMost - 1, (std::int64_t{1} << 53) + 1, 0, -7, 42};
  for (const DPPolicy& dp : policies()) {
    const Tensor x = dut.integers({2, 3}, numbers, dp);
    CHECK(x.dtype() == DType::i64);
    CHECK(values(x) == numbers);
    CHECK(values(x.clone()) == numbers);
    CHECK(values(x.t().contiguous().t()) == numbers);
    Tensor y = dut.torch.empty({2, 3}, {.dtype = DType::i64, .dp = dp});
    y.copy_(x);
    CHECK(values(y) == numbers);
    y.copy_(RuntimeContext::tensor(std::span<const std::int64_t>(numbers), {2, 3}));
    CHECK(values(y) == numbers);
  }
  const Tensor x = dut.integers({6}, numbers);
  CHECK(x[0].item<std::int64_t>() == kMost);
  CHECK(to_string(x.narrow(0, 2, 3)) == "tensor([9007199254740993, 0, -7], dtype=i64)");
  CHECK(to_string(x != 0) == "tensor([true, true, true, false, true, true], dtype=bool)");
  CHECK(to_string(dut.integers({2}, {3, -4}, DPPolicy::on_one_pe(), DType::i32)) ==
        "tensor([3, -4], dtype=i32)");
  CHECK(to_string(dut.torch.tensor({0.3, 500, -1}, {3}, {.dtype = DType::f8e4m3fn})) ==
        "tensor([0.3125, nan, -1], dtype=f8e4m3fn)");
  CHECK(to_string(RuntimeContext::tensor(std::span<const std::int64_t>(numbers).first(1), {1})) ==
        "tensor([9223372036854775807], dtype=i64)");
}

TEST_CASE("what makes tensors has torch's types", "[dtypes]") {
  TypesUnderTest dut;
  RuntimeContext& torch = dut.torch;
  const TensorOptions on_one{.dp = DPPolicy::on_one_pe()};
  CHECK(torch.arange(4, on_one).dtype() == DType::i64);
  CHECK(values(torch.arange(2, 11, 3, on_one)) == Integers{2, 5, 8});
  CHECK(values(torch.arange(5, 0, -2, on_one)) == Integers{5, 3, 1});
  CHECK(torch.arange(4.0, on_one).dtype() == DType::f32);
  CHECK(torch.arange(0, 1, 0.25, on_one).to_vector() == Floats{0, 0.25F, 0.5F, 0.75F});
  CHECK(torch.arange(4, {.dtype = DType::f16, .dp = on_one.dp}).dtype() == DType::f16);
  constexpr std::int64_t kLarge = std::int64_t{1} << 60;
  CHECK(values(torch.arange(kLarge, kLarge + 3, on_one)) ==
        Integers{kLarge, kLarge + 1, kLarge + 2});
  CHECK(values(torch.arange(kMost, -kMost, -kMost, on_one)) == Integers{kMost, 0});
  CHECK_THAT(error([&] { torch.arange(kLarge + 1, kLarge); }), Says("KB-F001", "arange"));
  const Tensor drawn = torch.randint(-5, 5, {64}, on_one);
  CHECK(drawn.dtype() == DType::i64);
  CHECK(all((drawn >= -5) & (drawn < 5)).item<bool>());
  const Tensor wide = torch.randint(-kMost, kMost, {64}, on_one);
  CHECK(any(abs(wide) > kMost / 1024 / 1024 * 1024).item<bool>());
  CHECK(torch.zeros({2}, on_one).dtype() == DType::f32);
  CHECK(torch.full({2}, 7, on_one).dtype() == DType::f32);
  CHECK(values(torch.full({2}, kMost, {.dtype = DType::i64})) == Integers{kMost, kMost});
  CHECK(values(torch.full({1}, 2, {.dtype = kBool})) == Integers{1});
  CHECK(values(torch.tensor({1, 2}, {2}, {.dtype = DType::i32})) == Integers{1, 2});
  CHECK(torch.tensor({1, 2}, {2}, on_one).dtype() == DType::f32);
  CHECK(torch.zeros_like(drawn).dtype() == DType::i64);
  CHECK_THAT(error([&] { torch.full({1}, 3e9, {.dtype = DType::i32}); }),
             Says("KB-M021", "value cannot be converted to type Int without overflow"));
}

TEST_CASE("types are promoted as torch.result_type does", "[dtypes]") {
  TypesUnderTest dut;
  constexpr DType f16 = DType::f16;
  constexpr DType f32 = DType::f32;
  constexpr DType i32 = DType::i32;
  constexpr DType i64 = DType::i64;
  struct Row {
    DType a;
    DType b;
    DType sum;
  };
  for (const auto& [a, b, expected] :
       {Row{kBool, kBool, kBool}, Row{kBool, i32, i32}, Row{i32, i64, i64}, Row{i64, f16, f16},
        Row{kBool, f32, f32}, Row{f16, DType::bf16, f32}, Row{f16, f32, f32}, Row{i32, f32, f32},
        Row{DType::bf16, i64, DType::bf16}}) {
    CAPTURE(name_of(a), name_of(b));
    CHECK((dut.of(a) + dut.of(b)).dtype() == expected);
    CHECK((dut.of(b) * dut.of(a)).dtype() == expected);
    CHECK((dut.of(a) == dut.of(b)).dtype() == kBool);
    CHECK((dut.of(a) + dut.of(b)).to_vector() == Floats(2, expected == kBool ? 1.0F : 2.0F));
    // A tensor without dimensions counts only by its category.
    const bool is_higher = (b == f32 || b == f16) != (a == f32 || a == f16 || a == DType::bf16);
    if (!is_higher && a != kBool) CHECK((dut.of(a) + dut.of(b, {})).dtype() == a);
  }
  CHECK((dut.of(f16) + dut.of(f32, {})).dtype() == f16);
  CHECK((dut.of(i32) + dut.of(i64, {})).dtype() == i32);
  CHECK((dut.of(i64) + dut.of(f16, {})).dtype() == f16);
  // Numbers are below tensors of their category.
  CHECK((dut.of(i32) + 1).dtype() == i32);
  CHECK((dut.of(i64) + 0.5).dtype() == f32);
  CHECK((dut.of(f16) + 0.5).dtype() == f16);
  CHECK((dut.of(kBool) + 1).dtype() == i64);
  CHECK((dut.of(kBool) + true).dtype() == kBool);
  // Quotients and functions of integers.
  CHECK((dut.of(i64) / dut.of(i64)).dtype() == f32);
  CHECK((dut.of(i64) / 2).to_vector() == Floats{0.5F, 0.5F});
  for (const Tensor& y : {exp(dut.of(i64)), log(dut.of(i32)), sqrt(dut.of(kBool)),
                          sigmoid(dut.of(i64)), tanh(dut.of(i64)), rsqrt(dut.of(i32))}) {
    CHECK(y.dtype() == f32);
  }
  CHECK(relu(dut.of(i64)).dtype() == i64);
  CHECK(where(dut.of(kBool), dut.of(i64), 0.5).dtype() == f32);
  CHECK(where(dut.of(f32) != 0, dut.of(i64), 0).dtype() == i64);
  CHECK_THAT(error([&] { where(dut.of(f32), dut.of(i64), 0); }),
             Says("KB-F002",
                  "where expected condition to be a boolean tensor, but got a tensor with dtype "
                  "Float"));
}

TEST_CASE("integers are computed with exactly, however they lie", "[dtypes]") {
  TypesUnderTest dut;
  constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
  const Integers of_a{kBig, -3, 5, kMost, 0, 17};
  const Integers of_b{1, 4, -5, -1, 2, 3};
  for (const DPPolicy& dp : policies()) {
    const Tensor a = dut.integers({2, 3}, of_a, dp);
    const Tensor b = dut.integers({2, 3}, of_b, dp);
    CHECK(values(a + b) == Integers{kBig + 1, 1, 0, kMost - 1, 2, 20});
    CHECK(values(b - a) == Integers{-kBig + 1, 7, -10, -kMost - 1, 2, -14});
    CHECK(values(b * 3) == Integers{3, 12, -15, -3, 6, 9});
    CHECK(values(add(b, b, 2)) == Integers{3, 12, -15, -3, 6, 9});
    CHECK(values(maximum(a, b)) == Integers{kBig, 4, 5, kMost, 2, 17});
    CHECK(values(clamp(a, 0)) == Integers{kBig, 0, 5, kMost, 0, 17});
    CHECK(values(clamp(b, -1, 3)) == Integers{1, 3, -1, -1, 2, 3});
    CHECK(values(pow(b, 3)) == Integers{1, 64, -125, -1, 8, 27});
    CHECK(values(abs(b)) == Integers{1, 4, 5, 1, 2, 3});
    CHECK(values(masked_fill(a, b > 2, -1)) == Integers{kBig, -1, 5, kMost, 0, -1});
    CHECK(values(where(a > b, a, b)) == Integers{kBig, 4, 5, kMost, 2, 17});
    CHECK(values(a & (b * 0 + 7)) == Integers{1, 5, 5, 7, 0, 1});
    CHECK(values(~b) == Integers{-2, -5, 4, 0, -3, -4});
    CHECK(values(b ^ b) == Integers(6, 0));
    CHECK(values((a > 0) & ~(b > 0)) == Integers{0, 0, 1, 1, 0, 0});
    CHECK(values((a > 0) | (b > 0)) == Integers{1, 1, 1, 1, 1, 1});
    CHECK(values(logical_not(a)) == Integers{0, 0, 0, 0, 1, 0});
    b.add_(1).mul_(2);
    CHECK(values(b) == Integers{4, 10, -8, 0, 6, 8});
    b.fill_(-9);
    CHECK(values(b) == Integers(6, -9));
  }
}

TEST_CASE("integers are reduced exactly, and sums of bool count", "[dtypes]") {
  TypesUnderTest dut;
  constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
  const Integers numbers{kBig, 2, -3, 4, kBig, 6};
  for (const DPPolicy& dp : policies()) {
    const Tensor x = dut.integers({2, 3}, numbers, dp);
    const bool cuts_rows = dp.pe == kRow || dp.cube == kRow;
    const bool cuts_columns = dp.pe == kColumn || dp.cube == kColumn;
    CHECK(values(sum(x)) == Integers{2 * kBig + 9});
    if (!cuts_columns) {
      CHECK(values(sum(x, 1)) == Integers{kBig - 1, kBig + 10});
      CHECK(values(amax(x, 1)) == Integers{kBig, kBig});
      CHECK(values(amin(x, 1)) == Integers{-3, 4});
      CHECK(values(argmax(x, 1)) == Integers{0, 1});
      CHECK(values(cumsum(x, 1)) == Integers{kBig, kBig + 2, kBig - 1, 4, kBig + 4, kBig + 10});
    }
    CHECK(values(sum(x > 3)) == Integers{4});
    CHECK(sum(x > 3).dtype() == DType::i64);
    if (cuts_rows || cuts_columns) continue;
    CHECK(any(x > 6).item<bool>());
    CHECK_FALSE(all(x > 6).item<bool>());
    CHECK(values(all(x > -1, 0)) == Integers{1, 1, 0});
    CHECK(values(any(x == 2, 1, true)) == Integers{1, 0});
    CHECK(any(x).dtype() == kBool);
  }
  const Tensor x = dut.integers({3}, {1, 2, 3}, DPPolicy::on_one_pe(), DType::i32);
  CHECK(sum(x).dtype() == DType::i64);
  CHECK(amax(x).dtype() == DType::i32);
  CHECK(argmax(x).dtype() == DType::i64);
  CHECK_THAT(error([&] { mean(x); }),
             Says("KB-F002",
                  "could not infer output dtype. Input dtype must be either a floating point or "
                  "complex dtype. Got: Int"));
}

TEST_CASE("to() converts as torch's devices do", "[dtypes]") {
  TypesUnderTest dut;
  const Tensor x = dut.tensor({5}, {1.9F, -1.9F, 0, 3e9F, -3e9F});
  CHECK(values(x.to(DType::i32)) == Integers{1, -1, 0, 2147483647, -2147483648});
  CHECK(values(x.to(DType::i64)) == Integers{1, -1, 0, 3'000'000'000, -3'000'000'000});
  CHECK(values(x.to(kBool)) == Integers{1, 1, 0, 1, 1});
  const Tensor scales = dut.tensor({4}, {0.3F, 440, 1000, -0.001F});
  CHECK(scales.to(DType::f8e5m2).to_vector() == Floats{0.3125F, 448, 1024, -0x1p-10F});
  const Floats e4m3 = scales.to(DType::f8e4m3fn).to(DType::f32).to_vector();
  CHECK(e4m3[0] == 0.3125F);
  CHECK(e4m3[1] == 448);
  CHECK(std::isnan(e4m3[2]));
  CHECK(e4m3[3] == -0x1p-9F);
  // Gradients do not pass integers.
  Tensor w = dut.leaf({2}, 1);
  CHECK_FALSE(w.to(DType::i64).requires_grad());
  CHECK_FALSE((w > 0).requires_grad());
  (w * dut.integers({2}, {2, 3})).sum().backward();
  CHECK(w.grad().to_vector() == Floats{2, 3});
}

TEST_CASE("operands of two types of floating point get gradients of theirs", "[dtypes]") {
  TypesUnderTest dut;
  const Tensor a = dut.leaf({2, 3}, 1, DPPolicy::on_one_pe(), DType::f16);
  const Tensor b = dut.leaf({3}, 2);
  const Tensor y = a * b + a;
  CHECK(y.dtype() == DType::f32);
  y.sum().backward();
  CHECK(a.grad().dtype() == DType::f16);
  CHECK(b.grad().dtype() == DType::f32);
  const Floats of_a = a.to_vector();
  const Floats of_b = b.to_vector();
  for (std::size_t i = 0; i < 6; ++i) CHECK(a.grad().to_vector()[i] == of_b[i % 3] + 1);
  for (std::size_t i = 0; i < 3; ++i) CHECK(b.grad().to_vector()[i] == of_a[i] + of_a[i + 3]);
  Tensor half = dut.tensor({2}, {1, 2}, DPPolicy::on_one_pe(), DType::f16);
  half += dut.tensor({2}, {0.5F, 0.25F});
  CHECK(half.dtype() == DType::f16);
  CHECK(half.to_vector() == Floats{1.5F, 2.25F});
}

TEST_CASE("targets, ids and indices may be integers", "[dtypes]") {
  TypesUnderTest dut;
  const Integers ids{2, 0, 1};
  const Floats of_ids(ids.begin(), ids.end());
  const Tensor integers = dut.integers({3}, ids);
  const Tensor numbers = dut.tensor({3}, of_ids);
  const Tensor table = dut.leaf({3, 4}, 1);
  namespace F = nn::functional;
  CHECK(F::embedding(integers, table).to_vector() == F::embedding(numbers, table).to_vector());
  CHECK(F::cross_entropy(table, integers).to_vector() ==
        F::cross_entropy(table, numbers).to_vector());
  const Tensor masked = dut.integers({3}, {2, -100, 1});
  CHECK(F::cross_entropy(table, masked).to_vector() ==
        F::cross_entropy(table, dut.tensor({3}, {2, -100, 1})).to_vector());
  CHECK(F::nll_loss(table, integers).to_vector() == F::nll_loss(table, numbers).to_vector());
  CHECK(index_select(table, 0, integers).to_vector() ==
        index_select(table, 0, numbers).to_vector());
  CHECK(one_hot(integers).dtype() == DType::i64);
  CHECK(values(one_hot(integers)) == Integers{0, 0, 1, 1, 0, 0, 0, 1, 0});
  CHECK_THAT(error([&] {
               F::cross_entropy(table, dut.integers({3}, {2, 5, 1}));
             }),
             Says("KB-F004", "Target 5 is out of bounds"));
  const auto [most, where_most] = topk(dut.integers({4}, {5, kMost, -1, kMost - 1}), 2);
  CHECK(values(most) == Integers{kMost, kMost - 1});
  CHECK(values(where_most) == Integers{1, 3});
}

TEST_CASE("powers of integers count every factor", "[dtypes]") {
  TypesUnderTest dut;
  const Tensor x = dut.integers({4}, {1, -1, 2, 3});
  // By squaring, modulo 2^64.
  std::uint64_t three = 3;
  for (int i = 0; i < 32; ++i) three *= three;
  CHECK(values(pow(x, (std::int64_t{1} << 32) + 1)) ==
        Integers{1, -1, 0, static_cast<std::int64_t>(three * 3)});
}

TEST_CASE("at() and item() are exact in a type that has the element", "[dtypes]") {
  TypesUnderTest dut;
  constexpr std::int64_t kBig = (std::int64_t{1} << 24) + 1;
  for (const DPPolicy& dp : policies()) {
    const Tensor x = dut.integers({2, 2}, {kBig, -1, 0, kMost}, dp);
    CHECK(x.at<std::int64_t>({0, 0}) == kBig);
    CHECK(x.at<std::int64_t>({1, 1}) == kMost);
    CHECK(x.at<double>({0, 0}) == static_cast<double>(kBig));
    CHECK(x.at<std::int32_t>({1, 1}) == -1);  // modulo 2^32, as to(DType::i32)
    CHECK(x.at<bool>({0, 1}));
    CHECK_FALSE(x.at<bool>({1, 0}));
    CHECK(x.at({0, 1}) == -1);
    CHECK(dut.tensor({2, 2}, {0.1F, -2.7F, 3, 4}, dp).at<std::int64_t>({0, 1}) == -2);
    CHECK(dut.tensor({2, 2}, {0.1F, -2.7F, 3, 4}, dp).at<double>({0, 0}) == double{0.1F});
  }
  const Integers numbers{1, kBig, 3};
  const Tensor host = RuntimeContext::tensor(std::span<const std::int64_t>(numbers), {3});
  CHECK(host.at<std::int64_t>({1}) == kBig);
  CHECK(host[1].item<std::int64_t>() == kBig);
  CHECK(dut.integers({1}, {kBig}).item<double>() == static_cast<double>(kBig));
}

TEST_CASE("what a type has no meaning for is refused in torch's words", "[dtypes]") {
  TypesUnderTest dut;
  Tensor x = dut.integers({2, 2}, {1, 2, 3, 4});
  const Tensor truth = x > 2;
  CHECK_THAT(error_of<CollectiveError>([&] { x.requires_grad_(); }),
             Says("KB-A002", "only Tensors of floating point dtype can require gradients"));
  CHECK_THAT(error([&] { x += 0.5; }),
             Says("KB-F002", "result type Float can't be cast to the desired output type Long"));
  CHECK_THAT(error([&] { matmul(x, x); }), Says("KB-F002", "not implemented for 'Long'"));
  CHECK_THAT(error([&] { x.softmax(-1); }),
             Says("KB-F002", "\"softmax_lastdim_kernel_impl\" not implemented for"));
  CHECK_THAT(
      error([&] { truth - truth; }),
      Says("KB-F002", "Subtraction, the `-` operator, with two bool tensors is not supported"));
  CHECK_THAT(error([&] { -truth; }), Says("KB-F002", "use the `~` or `logical_not()` operator"));
  CHECK_THAT(error([&] { pow(x, -1); }),
             Says("KB-F002", "Integers to negative integer powers are not allowed."));
  CHECK_THAT(error([&] { add(x, x, 0.5); }),
             Says("KB-F002", "argument alpha must not be a floating point number."));
  CHECK_THAT(error([&] { dut.of(DType::f32) & dut.of(DType::f32); }),
             Says("KB-F002", "\"bitwise_and_cpu\" not implemented for 'Float'"));
  const Tensor tiny = dut.of(DType::f8e5m2);
  CHECK_THAT(error([&] { tiny + tiny; }), Says("KB-F002", "not implemented for 'Float8_e5m2'"));
  CHECK_THAT(error([&] { tiny + dut.of(DType::f32); }),
             Says("KB-F002", "Promotion for Float8 Types is not supported"));
}

TEST_CASE("views and copies are of any type", "[dtypes]") {
  TypesUnderTest dut;
  const DType dtype = GENERATE(DType::i32, DType::i64, DType::boolean, DType::f8e4m3fn);
  const Integers numbers{1, 0, 1, 1, 0, 0, 1, 0};
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kRow)}) {
    const Tensor x = dut.integers({2, 4}, numbers, dp, dtype);
    const auto read = [](const Tensor& of) { return of.to_vector(); };
    CHECK(read(x.t()) == Floats{1, 0, 0, 0, 1, 1, 1, 0});
    CHECK(read(cat({x, x}, 1)).size() == 16);
    CHECK(read(x.narrow(1, 1, 2)) == Floats{0, 1, 0, 1});
    CHECK(read(x.slice(1, 0, 4, 2)) == Floats{1, 1, 0, 1});
    CHECK(read(stack(x.unbind(1), 1)) == read(x));
    CHECK(read(x.reshape({2, 2, 2})) == read(x));
    CHECK(read(x.select(1, 0).unsqueeze(1).expand({2, 4})) == Floats{1, 1, 1, 1, 0, 0, 0, 0});
    x.select(1, 3).zero_();
    CHECK(read(x) == Floats{1, 0, 1, 0, 0, 0, 1, 0});
  }
}

TEST_CASE("a tensor takes its type's bytes of HBM", "[dtypes]") {
  TypesUnderTest dut;
  const auto bytes = [&](DType dtype) {
    const Bytes before = dut.torch.ahbm.memory_allocated();
    const Tensor x = dut.torch.empty({1024}, {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
    return dut.torch.ahbm.memory_allocated() - before;
  };
  for (const DType dtype : kAllDTypes) CHECK(bytes(dtype) == 1024 * size_of(dtype));
}

}  // namespace
}  // namespace kernbench::test::dtypes_test
