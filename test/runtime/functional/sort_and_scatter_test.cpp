// sort, argsort, scatter, scatter_add and nonzero, compared with plain loops.

#include <algorithm>
#include <limits>
#include <numeric>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::sort_and_scatter_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Integers values(const Tensor& x) {
  return x.to_vector<std::int64_t>();
}

TEST_CASE("sort orders each row, and gives back gradients to where they came from", "[sort]") {
  const DType dtype = GENERATE(DType::f16, DType::f32, DType::i64);
  const bool descending = GENERATE(false, true);
  OperatorsUnderTest dut;
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kRow), on_all(kRow, kR)}) {
    const std::int64_t columns = 37;
    const Floats numbers = small_integers(4 * columns, 5);  // many are equal
    Tensor x = dut.tensor({4, columns}, numbers, dp, dtype);
    if (!is_integral(dtype)) x.requires_grad_();
    const auto [sorted, indices] = sort(x, -1, descending);
    Floats expected;
    Integers order;
    for (std::int64_t row = 0; row < 4; ++row) {
      Integers places(static_cast<std::size_t>(columns));
      std::iota(places.begin(), places.end(), 0);
      const auto at = [&](std::int64_t i) {
        return numbers[static_cast<std::size_t>(row * columns + i)];
      };
      std::ranges::stable_sort(places, [&](std::int64_t a, std::int64_t b) {
        return descending ? at(a) > at(b) : at(a) < at(b);
      });
      for (const std::int64_t i : places) expected.push_back(at(i));
      order.insert(order.end(), places.begin(), places.end());
    }
    CHECK(sorted.to_vector() == expected);
    CHECK(sorted.dtype() == dtype);
    CHECK(values(indices) == order);
    CHECK(values(argsort(x, 1, descending)) == order);
    if (is_integral(dtype)) continue;
    const Floats dy = small_integers(4 * columns, 3);
    sorted.backward(dut.tensor(x.shape(), dy, dp, dtype));
    Floats dx(dy.size());
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(columns);
      dx[row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(order[i])] = dy[i];
    }
    CHECK(x.grad().to_vector() == dx);
  }
}

TEST_CASE("indices that were changed are refused in backward", "[sort]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 4}, 1);
  for (const auto& [values, indices] : {topk(x, 2), sort(x)}) {
    indices.add_(1);
    const Tensor loss = values.sum();
    CHECK_THAT(error_of<CollectiveError>([&] { loss.backward(); }), Says("KB-A005"));
  }
}

TEST_CASE("the backward of topk is one kernel, whatever k", "[sort]") {
  const auto kernels = [](std::int64_t k) {
    OperatorsUnderTest dut;
    const Tensor y = topk(dut.leaf({2, 8}, 1), k).first;
    dut.torch.ahbm.synchronize();
    const std::size_t before = dut.torch.engine().results().size();
    y.backward(dut.tensor(y.shape(), small_integers(y.numel(), 2)));
    dut.torch.ahbm.synchronize();
    return dut.torch.engine().results().size() - before;
  };
  CHECK(kernels(5) == kernels(1));
}

TEST_CASE("sort is of any dimension, exact, and NaN is the largest", "[sort]") {
  OperatorsUnderTest dut;
  const Tensor columns = dut.tensor({3, 2}, {3, -1, 1, 5, 2, 0}, on_pes(kColumn));
  CHECK(sort(columns, 0).first.to_vector() == Floats{1, -1, 2, 0, 3, 5});
  CHECK(values(sort(columns, 0).second) == Integers{1, 0, 2, 2, 0, 1});
  const Tensor strange = dut.tensor({6}, {kNan, 1, kInfinity, -kInfinity, kNan, 0});
  CHECK(values(argsort(strange)) == Integers{3, 5, 1, 2, 0, 4});
  CHECK(values(argsort(strange, 0, true)) == Integers{0, 4, 2, 1, 5, 3});
  constexpr std::int64_t kBig = std::int64_t{1} << 62;
  const Integers big{kBig + 1, kBig, -kBig, kBig + 2};
  const Tensor whole = dut.torch.tensor(std::span<const std::int64_t>(big), {4}, {});
  CHECK(values(sort(whole).first) == Integers{-kBig, kBig, kBig + 1, kBig + 2});
  CHECK(sort(dut.tensor({2, 0}, {}), 1).first.numel() == 0);
  CHECK_THAT(error([&] { sort(columns, 1); }), Says("KB-F003", "which is cut"));
}

TEST_CASE("scatter puts elements at indices, and scatter_add adds them", "[scatter]") {
  const DType dtype = GENERATE(DType::f16, DType::f32, DType::i32);
  OperatorsUnderTest dut;
  for (const int dim : {0, 1}) {
    for (const DPPolicy& dp :
         {DPPolicy::on_one_pe(), DPPolicy{}, dim == 0 ? on_pes(kColumn) : on_pes(kRow)}) {
      CAPTURE(to_string(dp), dim, name_of(dtype));
      const Shape shape = dim == 0 ? Shape{3, 6} : Shape{4, 3};
      Tensor x = dut.tensor({4, 6}, small_integers(24, 1), dp, dtype);
      Tensor src = dut.tensor(shape, small_integers(shape.numel(), 2), dp, dtype);
      if (!is_integral(dtype)) {
        x.requires_grad_();
        src.requires_grad_();
      }
      Integers numbers;
      for (std::int64_t i = 0; i < shape.numel(); ++i)
        numbers.push_back(i * 7 % (dim == 0 ? 3 : 5));
      const Tensor index =
          dut.torch.tensor(std::span<const std::int64_t>(numbers), shape, {.dp = dp});
      Floats replaced = x.to_vector();
      Floats added = replaced;
      Floats kept(24, 1);
      std::vector<std::size_t> places;
      const Floats of_src = src.to_vector();
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto columns = static_cast<std::size_t>(shape[1]);
        const auto number = static_cast<std::size_t>(numbers[i]);
        places.push_back(dim == 0 ? number * 6 + i % columns : i / columns * 6 + number);
        replaced[places.back()] = of_src[i];
        added[places.back()] += of_src[i];
        kept[places.back()] = 0;
      }
      CHECK(scatter(x, dim, index, src).to_vector() == replaced);
      CHECK(scatter_add(x, dim, index, src).to_vector() == added);
      Floats filled = x.to_vector();
      for (const std::size_t place : places) filled[place] = 9;
      CHECK(scatter(x, dim, index, 9).to_vector() == filled);
      if (is_integral(dtype)) continue;
      const Floats dy = small_integers(24, 4);
      Floats of_places;
      for (const std::size_t place : places) of_places.push_back(dy[place]);
      scatter(x, dim, index, src).backward(dut.tensor({4, 6}, dy, dp, dtype));
      CHECK(src.grad().to_vector() == of_places);
      Floats rest = dy;
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] *= kept[i];
      CHECK(x.grad().to_vector() == rest);
      x.zero_grad();
      src.zero_grad();
      scatter_add(x, dim, index, src).backward(dut.tensor({4, 6}, dy, dp, dtype));
      CHECK(x.grad().to_vector() == dy);
      CHECK(src.grad().to_vector() == of_places);
    }
  }
}

// The figures are those of torch 1.13.1.
TEST_CASE("an index that is smaller than x and src reaches a part of both", "[scatter]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).requires_grad_();
  const Tensor src = dut.tensor({2, 3}, {20, 30, 40, 50, 60, 70}).requires_grad_();
  const Tensor index = dut.tensor({1, 2}, {2, 0}, DPPolicy::on_one_pe(), DType::i64);
  const Tensor replaced = scatter(x, 0, index, src);
  CHECK(replaced.to_vector() == Floats{1, 30, 3, 4, 5, 6, 7, 8, 20, 10, 11, 12});
  CHECK(scatter(x, 0, index, 7).to_vector() == Floats{1, 7, 3, 4, 5, 6, 7, 8, 7, 10, 11, 12});
  const Tensor added = scatter_add(x, 1, index, src);
  CHECK(added.to_vector() == Floats{31, 2, 23, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  (replaced + 2 * added).sum().backward();
  CHECK(x.grad().to_vector() == Floats{3, 2, 3, 3, 3, 3, 3, 3, 2, 3, 3, 3});
  CHECK(src.grad().to_vector() == Floats{3, 3, 0, 0, 0, 0});
}

TEST_CASE("nonzero lists the indices of what is not 0", "[scatter]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, {0, 2, 0, -1, 0, 3}, on_pes(kRow));
  const Tensor places = nonzero(x);
  CHECK(places.shape() == Shape{3, 2});
  CHECK(values(places) == Integers{0, 1, 1, 0, 1, 2});
  CHECK(nonzero(x > 5).shape() == Shape{0, 2});
}

TEST_CASE("scatter refuses what does not fit", "[scatter]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor index = dut.tensor({2, 1}, {0, 7});
  CHECK_THAT(error([&] {
               scatter(x, 1, index, dut.tensor({2, 1}, {8, 9}));
             }),
             Says("KB-F001", "index 7 is out of bounds for dimension 1 with size 3"));
  CHECK_THAT(error([&] {
               scatter(x, 1, index, dut.tensor({1, 1}, {8}));
             }),
             Says("KB-F001",
                  "Expected index [2, 1] to be smaller than self [2, 3] apart from dimension 1 and "
                  "to be smaller size than src [1, 1]"));
  CHECK_THAT(
      error([&] { scatter(x, 0, index[0], x); }),
      Says("KB-F001", "Index tensor must have the same number of dimensions as self tensor"));
}

}  // namespace
}  // namespace kernbench::test::sort_and_scatter_test
