#include <algorithm>
#include <cmath>

#include "runtime/random/generator.h"
#include "runtime/random/philox.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::random_test {
namespace {

using random::philox;

// The known answers of Random123 1.09 for philox4x32-10, which torch's at::Philox4_32 has too.
TEST_CASE("Philox gives the published numbers", "[random]") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        random::PhiloxCounter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
        random::PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("equal seeds give equal numbers, wherever they lie", "[random]") {
  OperatorsUnderTest dut;
  const auto numbers = [&](const DPPolicy& dp) {
    dut.torch.manual_seed(42);
    Floats all = dut.torch.rand({3, 5}, {.dp = dp}).to_vector();
    const Floats second = dut.torch.randn({4}, {.dp = dp}).to_vector();
    all.insert(all.end(), second.begin(), second.end());
    return all;
  };
  const Floats wanted = numbers(on_pes(kR));
  CHECK(numbers(on_pes(kRow)) == wanted);
  CHECK(numbers(on_all(kRow, kColumn)) == wanted);
  CHECK(numbers(on_pes(kPartial)) == wanted);
  dut.torch.manual_seed(43);
  CHECK(dut.torch.rand({3, 5}).to_vector() != Floats(wanted.begin(), wanted.begin() + 15));
}

TEST_CASE("random numbers have their means and variances", "[random]") {
  OperatorsUnderTest dut;
  constexpr std::int64_t kCount = 40000;
  const auto moments = [&](const Tensor& x) {
    double mean = 0;
    double square = 0;
    for (const float element : x.to_vector()) {
      mean += element / static_cast<double>(kCount);
      square += static_cast<double>(element) * element / static_cast<double>(kCount);
    }
    return std::pair(mean, square - mean * mean);
  };
  // Five standard deviations of the estimates.
  const double bound = 5 / std::sqrt(static_cast<double>(kCount));
  const auto [uniform_mean, uniform_variance] = moments(dut.torch.rand({kCount}));
  CHECK(std::abs(uniform_mean - 0.5) <= bound * std::sqrt(1 / 12.0));
  CHECK(std::abs(uniform_variance - 1 / 12.0) <= bound * std::sqrt(1 / 180.0));
  const auto [mean, variance] = moments(dut.torch.randn({kCount}));
  CHECK(std::abs(mean) <= bound);
  CHECK(std::abs(variance - 1) <= bound * std::sqrt(2.0));
  const Tensor x = dut.torch.empty({kCount}).normal_(3, 2);
  CHECK(std::abs(moments(x).first - 3) <= 2 * bound);
  for (const float element : dut.torch.randint(2, 5, {1000}).to_vector()) {
    CHECK((element == 2 || element == 3 || element == 4));
  }
  const Floats u = dut.torch.empty({kCount}).uniform_(-1, 1).to_vector();
  CHECK(*std::ranges::min_element(u) >= -1);
  CHECK(*std::ranges::max_element(u) < 1);
}

TEST_CASE("tensors like others, ranges and lists", "[random]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, Floats(6, 4), on_pes(kRow), DType::f16);
  for (const Tensor& like :
       {dut.torch.zeros_like(x), dut.torch.ones_like(x), dut.torch.full_like(x, 5),
        dut.torch.empty_like(x), dut.torch.rand_like(x), dut.torch.randn_like(x)}) {
    CHECK(like.shape() == x.shape());
    CHECK(like.dtype() == DType::f16);
    CHECK(like.dp() == on_pes(kRow));
  }
  CHECK(dut.torch.full_like(x, 5).to_vector() == Floats(6, 5));
  CHECK(dut.torch.arange(4).to_vector() == Floats{0, 1, 2, 3});
  CHECK(dut.torch.arange(1, 2, 0.25).to_vector() == Floats{1, 1.25F, 1.5F, 1.75F});
  CHECK(dut.torch.arange(3, 0, -1).to_vector() == Floats{3, 2, 1});
  CHECK_THAT(error([&] { dut.torch.arange(3, 0, 1); }), Says("KB-F001", "arange"));
  CHECK(RuntimeContext::tensor({1, 2, 3}).shape() == Shape{3});
  CHECK(dut.torch.tensor({1, 2}, {2}, {.dtype = DType::bf16}).dtype() == DType::bf16);
  CHECK_THAT(error([&] { dut.torch.randint(2, 2, {1}); }), Says("KB-F001", "randint"));
}

}  // namespace
}  // namespace kernbench::test::random_test
