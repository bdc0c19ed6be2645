// Every reduction over every set of dimensions, forward and backward, against plain loops and
// finite differences.

#include <algorithm>
#include <limits>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::reductions_table_test {
namespace {

using Reals = std::vector<double>;

struct Row {
  std::string name;
  std::function<Tensor(const Tensor&, const Dimensions&, bool)> of;
  std::function<double(const Reals&)> reference;
  int steps;       // roundings in f32 besides those of adding up
  bool is_linear;  // then reduced dimensions may be cut
};

double total(const Reals& x) {
  double sum = 0;
  for (const double element : x) sum += element;
  return sum;
}

std::vector<Row> rows() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {
      {"sum", [](auto& x, auto& d, bool k) { return sum(x, d, k); }, total, 1, true},
      {"mean", [](auto& x, auto& d, bool k) { return mean(x, d, k); },
       [](const Reals& x) { return total(x) / static_cast<double>(x.size()); }, 3, true},
      {"amax", [](auto& x, auto& d, bool k) { return amax(x, d, k); },
       [](const Reals& x) { return *std::ranges::max_element(x); }, 0, false},
      {"amin", [](auto& x, auto& d, bool k) { return amin(x, d, k); },
       [](const Reals& x) { return *std::ranges::min_element(x); }, 0, false},
      {"norm", [](auto& x, auto& d, bool k) { return norm(x, 2, d, k); },
       [](const Reals& x) {
         double sum = 0;
         for (const double element : x) sum += element * element;
         return std::sqrt(sum);
       },
       5, false},
      {"norm 1", [](auto& x, auto& d, bool k) { return norm(x, 1, d, k); },
       [](const Reals& x) {
         double sum = 0;
         for (const double element : x) sum += std::abs(element);
         return sum;
       },
       1, false},
      {"norm inf", [=](auto& x, auto& d, bool k) { return norm(x, kInfinity, d, k); },
       [](const Reals& x) {
         double most = 0;
         for (const double element : x) most = std::max(most, std::abs(element));
         return most;
       },
       0, false},
  };
}

double unit_of(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

// Different numbers, none of them 0, which all types have.
Floats elements_of(std::int64_t count) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back((static_cast<float>((i * 29) % 61) - 30.5F) / 8);
  }
  return elements;
}

struct Form {
  Shape shape;
  std::vector<int> dims;

  bool reduces(std::size_t d) const {
    return dims.empty() || std::ranges::find(dims, static_cast<int>(d)) != dims.end();
  }
  // Returns the index of the result that the element belongs to.
  std::size_t target(std::int64_t index) const {
    std::int64_t at = 0;
    std::int64_t stride = 1;
    for (std::size_t d = shape.rank(); d-- > 0;) {
      if (!reduces(d)) at += index % shape[d] * stride;
      if (!reduces(d)) stride *= shape[d];
      index /= shape[d];
    }
    return static_cast<std::size_t>(at);
  }
  Shape result(bool keepdim) const {
    std::vector<std::int64_t> sizes;
    for (std::size_t d = 0; d < shape.rank(); ++d) {
      if (!reduces(d)) sizes.push_back(shape[d]);
      if (reduces(d) && keepdim) sizes.push_back(1);
    }
    return Shape(sizes);
  }
};

Dimensions dimensions_of(const std::vector<int>& dims) {
  if (dims.empty()) return {};
  if (dims.size() == 1) return dims[0];
  if (dims.size() == 2) return {dims[0], dims[1]};
  return {dims[0], dims[1], dims[2]};
}

void check_row(OperatorsUnderTest& dut, const Row& row, const Form& form, const DPPolicy& dp,
               DType dtype, bool keepdim) {
  const Floats elements = elements_of(form.shape.numel());
  const Tensor x = dut.tensor(form.shape, elements, dp, dtype).requires_grad_();
  const Tensor y = row.of(x, dimensions_of(form.dims), keepdim);
  CHECK(y.shape() == form.result(keepdim));
  std::vector<Reals> groups(static_cast<std::size_t>(y.numel()));
  std::vector<std::size_t> place;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    place.push_back(groups[form.target(i)].size());
    groups[form.target(i)].push_back(elements[static_cast<std::size_t>(i)]);
  }
  INFO(row.name << " of " << to_string(form.shape) << " to " << to_string(y.shape()) << " "
                << name_of(dtype) << " " << to_string(dp));
  // Each holder of a summand rounds its own.
  const double holders = static_cast<double>(x.shards().size());
  const auto bound = [&](double magnitude) {
    return std::max(1.0, magnitude) *
           (unit_of(dtype) * holders + (row.steps + static_cast<double>(x.numel())) * 0x1p-24);
  };
  const Floats is = y.to_vector();
  for (std::size_t i = 0; i < is.size(); ++i) {
    Reals magnitudes = groups[i];
    for (double& element : magnitudes) element = std::abs(element);
    CHECK(std::abs(is[i] - row.reference(groups[i])) <= bound(total(magnitudes)));
  }
  const Floats dy = sixteenths(y.numel(), 3);
  y.backward(dut.tensor(y.shape(), dy, gradient_policy(y.dp()), dtype));
  const Floats dx = x.grad().to_vector();
  for (std::size_t i = 0; i < dx.size(); ++i) {
    constexpr double kStep = 1e-5;
    const std::size_t group = form.target(static_cast<std::int64_t>(i));
    Reals above = groups[group];
    Reals below = above;
    above[place[i]] += kStep;
    below[place[i]] -= kStep;
    const double slope = (row.reference(above) - row.reference(below)) / (2 * kStep);
    CHECK(std::abs(dx[i] - dy[group] * slope) <= bound(4));
  }
}

TEST_CASE("reductions over any dimensions, and their gradients", "[reductions][table]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const bool keepdim = GENERATE(false, true);
  const std::vector<std::vector<int>> sets = {{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}};
  for (const Row& row : rows()) {
    for (const auto& dims : sets) {
      const Form form{{3, 4, 5}, dims};
      check_row(dut, row, form, on_pes(kR), dtype, keepdim);
      const bool may_cut_rows = row.is_linear || !form.reduces(0);
      const bool may_cut_columns = row.is_linear || !form.reduces(2);
      if (may_cut_rows) check_row(dut, row, form, on_pes(kRow), dtype, keepdim);
      if (may_cut_columns) check_row(dut, row, form, on_cubes(kColumn), dtype, keepdim);
    }
  }
}

TEST_CASE("large reductions go block by block", "[reductions]") {
  OperatorsUnderTest dut;
  const Shape shape = GENERATE(Shape{3, 9001}, Shape{9001, 3}, Shape{2, 3000, 2}, Shape{5, 0});
  Floats ones(static_cast<std::size_t>(shape.numel()), 1);
  const Tensor x = dut.tensor(shape, ones, on_pes(kR));
  for (int d = 0; d < x.dim(); ++d) {
    const Tensor y = sum(x, d);
    CHECK(y.to_vector() ==
          Floats(static_cast<std::size_t>(y.numel()), static_cast<float>(x.size(d))));
  }
  CHECK(x.sum().item() == static_cast<float>(shape.numel()));
}

TEST_CASE("equal maxima share the gradient", "[reductions]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({4}, {1, 3, 3, 2}, on_pes(kR)).requires_grad_();
  x.max().backward();
  CHECK(x.grad().to_vector() == Floats{0, 0.5F, 0.5F, 0});
}

TEST_CASE("argmax is the first of the largest", "[reductions]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::f32);
  const Tensor x = dut.tensor({2, 3}, {1, 5, 5, 7, 2, 6}, on_pes(kRow), dtype);
  CHECK(argmax(x, 1).to_vector() == Floats{1, 0});
  CHECK(argmax(x, -1, true).shape() == Shape{2, 1});
  const Tensor whole = dut.tensor({2, 3}, {1, 5, 5, 7, 2, 6}, on_pes(kR), dtype);
  CHECK(argmax(whole, 0).to_vector() == Floats{1, 0, 1});
  CHECK(argmax(whole).item() == 3);
  CHECK_THAT(error([&] { argmax(x, 0); }), Says("KB-F003", "argmax"));
}

TEST_CASE("cumsum adds up, and its gradient from the end", "[reductions]") {
  OperatorsUnderTest dut;
  const std::int64_t columns = GENERATE(1, 5, 64, 65, 200);
  const Floats elements = small_integers(2 * columns, 1);
  const Tensor x = dut.tensor({2, columns}, elements, on_pes(kRow)).requires_grad_();
  const Tensor y = cumsum(x, 1);
  const Floats dy = small_integers(2 * columns, 2);
  y.backward(dut.tensor({2, columns}, dy, on_pes(kRow)));
  const Floats is = y.to_vector();
  const Floats dx = x.grad().to_vector();
  for (std::int64_t row = 0; row < 2; ++row) {
    float before = 0;
    float after = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      const auto from_start = static_cast<std::size_t>(row * columns + i);
      const auto from_end = static_cast<std::size_t>(row * columns + columns - 1 - i);
      CHECK(is[from_start] == (before += elements[from_start]));
      CHECK(dx[from_end] == (after += dy[from_end]));
    }
  }
  const Tensor z = dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kR));
  CHECK(z.cumsum(0).to_vector() == Floats{1, 2, 4, 6});
}

TEST_CASE("softmax and log_softmax along any dimension", "[reductions]") {
  OperatorsUnderTest dut;
  const int dim = GENERATE(0, 1, -1);
  const Floats elements = sixteenths(12, 1);
  const Tensor x = dut.tensor({3, 4}, elements, on_pes(kR)).requires_grad_();
  const Floats y = nn::functional::log_softmax(x, dim).to_vector();
  const Floats p = x.softmax(dim).to_vector();
  const Tensor loss = x.log_softmax(dim)[0].sum();
  loss.backward();
  const Floats dx = x.grad().to_vector();
  const std::size_t stride = dim == 0 ? 4 : 1;
  const std::size_t count = dim == 0 ? 3 : 4;
  for (std::size_t i = 0; i < 12; ++i) {
    const std::size_t first = dim == 0 ? i % 4 : i / 4 * 4;
    double sum = 0;
    double chosen = 0;
    for (std::size_t k = 0; k < count; ++k) {
      sum += std::exp(static_cast<double>(elements[first + k * stride]));
      chosen += first + k * stride < 4 ? 1 : 0;
    }
    const double wanted = elements[i] - std::log(sum);
    CHECK(std::abs(y[i] - wanted) <= 8 * 0x1p-23);
    CHECK(std::abs(p[i] - std::exp(wanted)) <= 4 * 0x1p-23);
    CHECK(std::abs(dx[i] - ((i < 4 ? 1 : 0) - std::exp(wanted) * chosen)) <= 16 * 0x1p-23);
  }
}

TEST_CASE("dimensions that there are not are refused", "[reductions]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 3}, 1, on_pes(kColumn));
  CHECK_THAT(error([&] { sum(x, 2); }), Says("KB-F001", "sum", "range of [-2, 1], but got 2"));
  CHECK_THAT(error([&] { sum(x, {1, -1}); }), Says("KB-F001", "dim -1 appears multiple times"));
  CHECK_THAT(error([&] { amax(x, 1); }), Says("KB-F003", "amax"));
}

}  // namespace
}  // namespace kernbench::test::reductions_table_test
