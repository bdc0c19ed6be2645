// Ids, targets and numbers that f32 and f64 would round.

#include <limits>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::ids_test {
namespace {

namespace F = nn::functional;
using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kRows24 = std::int64_t{1} << 24;

class IdsUnderTest : public OperatorsUnderTest {
 public:
  Tensor ids(const Integers& elements, DType dtype = DType::i64,
             const DPPolicy& dp = DPPolicy::on_one_pe()) {
    return torch.tensor(std::span<const std::int64_t>(elements),
                        {static_cast<std::int64_t>(elements.size())}, {.dtype = dtype, .dp = dp});
  }
};

Integers values(const Tensor& x) {
  return x.to_vector<std::int64_t>();
}

TEST_CASE("ids above 2^24 pick their own row", "[ids]") {
  IdsUnderTest dut;
  const auto [of_table, first] =
      GENERATE(std::pair{kR, std::int64_t{1} << 40}, std::pair{kRow, kRows24 - 1},
               std::pair{kColumn, kMost - 4});
  const Tensor table = dut.leaf({4, 2}, 1, on_pes(of_table));
  const Floats elements = table.to_vector();
  const Integers offsets{3, 0, 2, 2, -1, 1};
  Integers numbers;
  for (const std::int64_t offset : offsets) numbers.push_back(first + offset);
  numbers.push_back(-kMost - 1);
  const Tensor rows =
      F::embedding(dut.ids(numbers, DType::i64, on_pes(kR)), table, {.first_index = first});
  Floats expected(14, 0);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < 0) continue;
    const auto row = static_cast<std::size_t>(offsets[i]);
    for (std::size_t j = 0; j < 2; ++j) expected[2 * i + j] = elements[2 * row + j];
  }
  CHECK(rows.to_vector() == expected);
  rows.sum().backward();
  CHECK(table.grad().to_vector() == Floats{1, 1, 1, 1, 2, 2, 1, 1});
}

TEST_CASE("a compiled embedding does not wait for the ids that it computes", "[ids]") {
  IdsUnderTest dut;
  const Tensor table = dut.tensor({4, 2}, small_integers(8, 1));
  const Tensor ids = dut.ids({0, 2, 1});
  const auto look_up = [&](const Tensor& of) { return F::embedding(of + 1, table); };
  const Time before = dut.torch.engine().now();
  const Tensor compiled = compile(look_up)(ids);
  CHECK(dut.torch.engine().now() == before);
  CHECK(compiled.to_vector() == look_up(ids).to_vector());
}

TEST_CASE("a table of more than 2^24 rows takes ids that have all of them", "[ids]") {
  IdsUnderTest dut;
  Tensor table =
      dut.torch.zeros({kRows24 + 2, 1}, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
  table.narrow(0, kRows24 - 1, 3)
      .copy_(dut.tensor({3, 1}, {1, 2, 3}, DPPolicy::on_one_pe(), DType::f16));
  const DType dtype = GENERATE(DType::i32, DType::i64);
  const Tensor ids = dut.ids({kRows24 + 1, kRows24}, dtype);
  CHECK(F::embedding(ids, table).to_vector() == Floats{3, 2});
  CHECK_THAT(error([&] { F::embedding(ids.to(DType::f32), table); }),
             Says("KB-F002", "f32 has all whole numbers up to 2^24 only, and there are 16777218",
                  ".dtype = kb::DType::i64"));
}

TEST_CASE("an id that is no row is refused in torch's words", "[ids]") {
  IdsUnderTest dut;
  const Tensor table = dut.leaf({5, 2}, 1);
  const auto error_of_id = [&](const Tensor& ids) {
    return error([&] { F::embedding(ids, table); });
  };
  for (const std::int64_t id :
       {std::int64_t{5}, std::int64_t{-1}, kMost, (std::int64_t{1} << 32)}) {
    CHECK_THAT(error_of_id(dut.ids({0, id})),
               Says("KB-F001", "index out of range in self", fmt::format("has {}", id), "0 to 4"));
  }
  CHECK_THAT(error_of_id(dut.tensor({2}, {1, 2.5F})), Says("KB-F001", "has 2.5"));
  CHECK_THAT(error_of_id(dut.tensor({2}, {1, NAN})), Says("KB-F001", "has nan"));
  CHECK_THAT(error([&] {
               gather(table, 0, dut.ids({kRows24 * 256 + 1}).unsqueeze(0).expand({1, 2}));
             }),
             Says("KB-F001", "index 4294967297 is out of bounds for dimension 0 with size 5"));
  CHECK_THAT(error([&] { index_select(table, 0, dut.ids({-1})); }),
             Says("KB-F001", "index -1 is out of bounds"));
}

TEST_CASE("targets are exact, and ignore_index may be any number", "[ids]") {
  IdsUnderTest dut;
  const auto of_loss = GENERATE(0, 1);
  const auto loss = [&](const Tensor& logits, const Tensor& targets, std::int64_t ignored) {
    if (of_loss == 0) return F::cross_entropy(logits, targets, {.ignore_index = ignored});
    return F::nll_loss(F::log_softmax(logits, 1), targets, F::Reduction::mean, ignored);
  };
  const Floats logits = sixteenths(12, 1);
  const auto gradient = [&](const Integers& targets, std::int64_t ignored) {
    Tensor x = dut.tensor({3, 4}, logits).requires_grad_();
    loss(x, dut.ids(targets), ignored).backward();
    return x.grad().to_vector();
  };
  const Floats expected = gradient({2, -100, 1}, -100);
  for (const std::int64_t ignored : {kMost, -kMost - 1, kRows24 + 1}) {
    CHECK(gradient({2, ignored, 1}, ignored) == expected);
    const std::int64_t near = ignored ^ 1;
    CHECK_THAT(error([&] {
                 gradient({2, near, 1}, ignored);
               }),
               Says("KB-F004", fmt::format("Target {} is out of bounds", near)));
  }
  CHECK_THAT(error([&] {
               gradient({2, 4, 1}, -100);
             }),
             Says("KB-F004", "Target 4 is out of bounds"));
  CHECK_THAT(error([&] {
               loss(dut.tensor({3, 4}, logits), dut.tensor({3}, {0, 1.5F, 2}), -100);
             }),
             Says("KB-F004", "Target 1.5 is out of bounds"));
}

TEST_CASE("numbers beside elements of i64 are exact", "[ids]") {
  IdsUnderTest dut;
  const Tensor x = dut.ids({1, kMost - 1, kMost, -5});
  CHECK(values(x + kMost) == Integers{-kMost - 1, -3, -2, kMost - 5});
  CHECK(values(x - kMost) == Integers{1 - kMost, -1, 0, kMost - 3});
  CHECK(values(kMost - x) == Integers{kMost - 1, 1, 0, -kMost + 3});
  CHECK(values(x * (kMost - 1)) == Integers{kMost - 1, 4, -kMost + 1, -kMost + 9});
  CHECK(values(x == kMost - 1) == Integers{0, 1, 0, 0});
  CHECK(values(x < kMost) == Integers{1, 1, 0, 1});
  CHECK(values(clamp(x, -2, kMost - 1)) == Integers{1, kMost - 1, kMost - 1, -2});
  CHECK(values(clamp(x, 2)) == Integers{2, kMost - 1, kMost, 2});
  CHECK(values(where(x > 0, x, kMost - 2)) == Integers{1, kMost - 1, kMost, kMost - 2});
  CHECK(values(where(x > 0, kMost - 2, x)) == Integers{kMost - 2, kMost - 2, kMost - 2, -5});
  CHECK(values(masked_fill(x, x < 0, kMost - 1)) == Integers{1, kMost - 1, kMost, kMost - 1});
  x.add_(kMost - 1);
  CHECK(values(x) == Integers{kMost, -4, -3, kMost - 6});
  x.fill_(kMost - 1);
  CHECK(values(x) == Integers(4, kMost - 1));
  CHECK(values(pow(dut.ids({-1, 1}), kMost)) == Integers{-1, 1});
  const Tensor whole = dut.torch.full({4, 4}, kMost - 1, {.dtype = DType::i64});
  CHECK(values(whole.narrow(1, 1, 2)) == Integers(8, kMost - 1));
  CHECK(values(whole.t().contiguous()) == Integers(16, kMost - 1));
  CHECK(values(index_select(whole, 1, dut.ids({2}))) == Integers(4, kMost - 1));
}

TEST_CASE("elements are read as integers towards zero, the largest there is, and NaN 0", "[ids]") {
  IdsUnderTest dut;
  const Tensor x = dut.tensor({6}, {-1.9F, NAN, HUGE_VALF, -HUGE_VALF, 3e9F, 0.5F});
  constexpr std::int64_t kLeast = -kMost - 1;
  constexpr std::int32_t kMost32 = std::numeric_limits<std::int32_t>::max();
  CHECK(values(x) == Integers{-1, 0, kMost, kLeast, 3'000'000'000, 0});
  CHECK(values(x) == values(x.to(DType::i64)));
  CHECK(x.to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{-1, 0, kMost32, -kMost32 - 1, kMost32, 0});
  CHECK(x.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 0, 255, 0, 255, 0});
  CHECK(x.to_vector<bool>() == std::vector<bool>(6, true));
  CHECK(x.shard_to_vector<std::int64_t>(0) == values(x));
  CHECK(x[1].item<int>() == 0);
  CHECK(x[2].item<int>() == kMost32);
  CHECK(x[2].item<std::int64_t>() == kMost);
  CHECK(x[5].item<bool>());
  const Tensor exact = dut.ids({kMost, kMost - 1});
  CHECK(exact.shard_to_vector<std::int64_t>(0) == Integers{kMost, kMost - 1});
  CHECK(exact.to_vector<std::int32_t>() == std::vector<std::int32_t>{-1, -2});
  CHECK(exact.to_vector<double>() == std::vector<double>{0x1p63, 0x1p63});
}

}  // namespace
}  // namespace kernbench::test::ids_test
