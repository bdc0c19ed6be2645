// Operators whose indices are elements of a tensor, compared with plain loops.

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/functional/shape_operators.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::indexing_test {
namespace {

const std::vector<DType> kTypes(kDTypes.begin(), kDTypes.end());

// Placements that do not cut the given dimension of a matrix.
std::vector<DPPolicy> placements_for(int dim) {
  return {DPPolicy::on_one_pe(), DPPolicy{}, on_pes(kPartial),
          dim == 0 ? on_pes(kColumn) : on_pes(kRow)};
}

DPPolicy replicated_on_holders(DPPolicy dp) {
  dp.cube = dp.pe = Shard::replicate;
  return dp;
}

TEST_CASE("index_select takes rows or columns, and adds up what it gives back", "[indexing]") {
  const DType dtype = GENERATE(from_range(kTypes));
  OperatorsUnderTest dut;
  const Floats numbers{2, 0, 2, 3, 2};
  for (const int dim : {0, 1}) {
    for (const DPPolicy& dp : placements_for(dim)) {
      CAPTURE(to_string(dp), dim, name_of(dtype));
      Tensor x = dut.tensor({4, 6}, small_integers(24, 1), dp, dtype).requires_grad_();
      const Tensor index = dut.tensor({5}, numbers, replicated_on_holders(dp));
      const Tensor y = index_select(x, dim - 2, index);
      const Floats of_x = x.to_vector();
      const Floats dy = small_integers(y.numel(), 2);
      Floats expected;
      Floats dx(24, 0);
      for (std::int64_t row = 0; row < y.shape()[0]; ++row) {
        for (std::int64_t column = 0; column < y.shape()[1]; ++column) {
          const auto from = [&](std::int64_t i) {
            return static_cast<std::int64_t>(numbers[static_cast<std::size_t>(i)]);
          };
          const auto at =
              static_cast<std::size_t>(dim == 0 ? from(row) * 6 + column : row * 6 + from(column));
          dx[at] += dy[expected.size()];
          expected.push_back(of_x[at]);
        }
      }
      CHECK(y.to_vector() == expected);
      y.backward(dut.tensor(y.shape(), dy, gradient_policy(dp), dtype));
      CHECK(x.grad().to_vector() == dx);
    }
  }
}

TEST_CASE("gather takes an element per index, and adds up what it gives back", "[indexing]") {
  const DType dtype = GENERATE(from_range(kTypes));
  OperatorsUnderTest dut;
  for (const int dim : {0, 1}) {
    for (const DPPolicy& dp : placements_for(dim)) {
      CAPTURE(to_string(dp), dim, name_of(dtype));
      Tensor x = dut.tensor({4, 6}, small_integers(24, 1), dp, dtype).requires_grad_();
      const Shape shape = dim == 0 ? Shape{3, 6} : Shape{4, 2};
      Floats numbers;
      for (std::int64_t i = 0; i < shape.numel(); ++i) {
        numbers.push_back(static_cast<float>((i * 5 + 1) % (dim == 0 ? 4 : 6)));
      }
      const Tensor y = gather(x, dim, dut.tensor(shape, numbers, replicated_on_holders(dp)));
      const Floats of_x = x.to_vector();
      const Floats dy = small_integers(y.numel(), 2);
      Floats expected;
      Floats dx(24, 0);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto columns = static_cast<std::size_t>(shape[1]);
        const auto number = static_cast<std::size_t>(numbers[i]);
        const std::size_t at = dim == 0 ? number * 6 + i % columns : i / columns * 6 + number;
        expected.push_back(of_x[at]);
        dx[at] += dy[i];
      }
      CHECK(y.to_vector() == expected);
      y.backward(dut.tensor(shape, dy, gradient_policy(dp), dtype));
      CHECK(x.grad().to_vector() == dx);
    }
  }
}

TEST_CASE("one_hot has a 1 for each class", "[indexing]") {
  OperatorsUnderTest dut;
  const Tensor classes = dut.tensor({2, 2}, {1, 0, 2, 1}, on_pes(kRow));
  CHECK(one_hot(classes).to_vector() == Floats{0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0});
  CHECK(one_hot(classes, 4).shape() == Shape{2, 2, 4});
  CHECK_THAT(error([&] { (void)one_hot(classes, 2); }),
             Says("KB-F001", "Class values must be smaller than num_classes."));
  CHECK_THAT(error([&] { (void)one_hot(-classes); }),
             Says("KB-F001", "Class values must be non-negative."));
}

TEST_CASE("tril and triu keep a triangle, of values and of gradients", "[indexing]") {
  const DType dtype = GENERATE(from_range(kTypes));
  const std::int64_t diagonal = GENERATE(-2, 0, 1);
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = GENERATE(2048, 1 << 21);
  OperatorsUnderTest dut(topology);
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), DPPolicy{}, on_pes(kPartial), on_pes(kRow)}) {
    for (const Shape& shape : {Shape{5, 4}, Shape{4, 3, 5}}) {
      const auto check = [&](const auto& triangle, const auto& is_kept) {
        CAPTURE(to_string(dp), to_string(shape), name_of(dtype), diagonal);
        Tensor x = dut.tensor(shape, small_integers(shape.numel(), 1), dp, dtype);
        if (is_partial(dp)) {  // where() takes no sums
          CHECK_THAT(error([&] { (void)triangle(x); }), Says("KB-F003"));
          return;
        }
        x.requires_grad_();
        const std::int64_t rows = shape[shape.rank() - 2];
        const std::int64_t columns = shape[shape.rank() - 1];
        const auto kept = [&](Floats elements) {
          for (std::size_t i = 0; i < elements.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            if (!is_kept(at / columns % rows, at % columns)) elements[i] = 0;
          }
          return elements;
        };
        const Tensor y = triangle(x);
        CHECK(y.to_vector() == kept(x.to_vector()));
        const Floats dy = small_integers(shape.numel(), 2);
        y.backward(dut.tensor(shape, dy, dp, dtype));
        CHECK(x.grad().to_vector() == kept(dy));
      };
      check([&](const Tensor& x) { return tril(x, diagonal); },
            [&](auto row, auto column) { return column <= row + diagonal; });
      check([&](const Tensor& x) { return triu(x, diagonal); },
            [&](auto row, auto column) { return column >= row + diagonal; });
    }
  }
}

TEST_CASE("topk finds the largest and the smallest, and where they are", "[indexing]") {
  const DType dtype = GENERATE(from_range(kTypes));
  const bool largest = GENERATE(true, false);
  OperatorsUnderTest dut;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats elements = small_integers(24, 3);  // with many equal ones
  elements[7] = -kInfinity;
  elements[9] = kInfinity;
  for (const int dim : {0, 1}) {
    for (const std::int64_t k : {1, 3, 4}) {
      const DPPolicy dp = dim == 0 ? on_pes(kColumn) : on_pes(kRow);
      Tensor x = dut.tensor({4, 6}, elements, dp, dtype).requires_grad_();
      const auto [values, indices] = topk(x, k, dim, largest);
      const std::size_t count = dim == 0 ? 6 : 4;
      Floats expected_values(count * static_cast<std::size_t>(k));
      Floats expected_indices(expected_values.size());
      Floats dx(24, 0);
      for (std::size_t line = 0; line < count; ++line) {
        const auto at = [&](std::size_t i) { return dim == 0 ? i * 6 + line : line * 6 + i; };
        std::vector<std::size_t> order(dim == 0 ? 4 : 6);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
          return largest ? elements[at(a)] > elements[at(b)] : elements[at(a)] < elements[at(b)];
        });
        for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
          const std::size_t to = dim == 0 ? i * 6 + line : line * static_cast<std::size_t>(k) + i;
          expected_values[to] = elements[at(order[i])];
          expected_indices[to] = static_cast<float>(order[i]);
          dx[at(order[i])] = 1;
        }
      }
      CHECK(values.to_vector() == expected_values);
      CHECK(indices.to_vector() == expected_indices);
      values.backward(dut.tensor(values.shape(), Floats(expected_values.size(), 1), dp, dtype));
      CHECK(x.grad().to_vector() == dx);
    }
  }
}

TEST_CASE("indices are checked, in torch's words", "[indexing]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, small_integers(6, 1));
  const auto index = [&](const Floats& numbers) {
    return dut.tensor({static_cast<std::int64_t>(numbers.size())}, numbers);
  };
  CHECK_THAT(error([&] { (void)index_select(x, 0, index({2})); }),
             Says("KB-F001", "index 2 is out of bounds for dimension 0 with size 2"));
  CHECK_THAT(error([&] { (void)index_select(x, 0, x); }),
             Says("KB-F001", "Index is supposed to be a vector"));
  CHECK_THAT(error([&] { (void)gather(x, 0, index({0})); }),
             Says("KB-F001", "same number of dimensions as input tensor"));
  CHECK_THAT(error([&] { (void)topk(x, 4); }), Says("KB-F001", "selected index k out of range"));
  CHECK_THAT(error([&] { (void)tril(index({0})); }),
             Says("KB-F001", "input tensor must have at least 2 dimensions"));
  const Tensor cut = dut.tensor({4, 4}, small_integers(16, 1), on_pes(kRow));
  CHECK_THAT(error([&] { (void)index_select(cut, 0, index({0})); }),
             Says("KB-F003", "along dimension 0, which is cut"));
}

}  // namespace
}  // namespace kernbench::test::indexing_test
