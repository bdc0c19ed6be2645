// Every elementwise operator, forward and backward, against plain functions of doubles and their
// finite differences: all types, placements and broadcasts.

#include <algorithm>

#include "test/runtime/functional/elementwise_rows.h"

namespace kernbench::test::elementwise_table_test {
namespace {

using Row = ElementwiseRow;
using Reals = Row::Reals;

// Numbers from `least` to 2 that all types have, apart from each other and from 0, 0.1 and 0.7, so
// that no function has a kink near them.
Floats operand(std::int64_t count, int which, double least) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto step = static_cast<double>((i * 29 + which * 13) % 31) / 31;
    elements.push_back(std::floor(static_cast<float>((least + step * (2 - least)) * 32)) / 32 +
                       static_cast<float>(which + 1) / 128);
  }
  return elements;
}

// Returns the index of the operand's element that belongs to an element of the result.
std::size_t source_of(const Shape& result, const Shape& operand, std::int64_t index) {
  std::int64_t source = 0;
  std::int64_t stride = 1;
  for (std::size_t i = 1; i <= result.rank(); ++i) {
    const std::int64_t size = result[result.rank() - i];
    const std::int64_t at = index % size;
    index /= size;
    if (i > operand.rank()) continue;
    const std::int64_t own = operand[operand.rank() - i];
    if (own != 1) source += at * stride;
    stride *= own;
  }
  return static_cast<std::size_t>(source);
}

// Whole numbers from -6 to 6 without 0, or from 1 to 6; of bool 0 and 1, or 1.
Floats whole_operand(std::int64_t count, int which, double least, DType dtype) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = (i * 5 + which * 3) % 6 + 1;
    const bool is_negative = least <= -1 && (i * 3 + which) % 7 < 3;
    elements.push_back(static_cast<float>(is_negative ? -number : number));
    if (dtype == DType::boolean) elements.back() = least < 1 && is_negative ? 0 : 1;
  }
  return elements;
}

double unit_of(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

// A cut of the operand as the policy says, if it does not repeat there.
DPPolicy policy_beside(const DPPolicy& dp, const Shape& operand, const Shape& result) {
  const auto level = [&](Shard shard) {
    if (!is_sharded(shard)) return shard;
    const std::size_t rank = result.rank();
    const bool repeats =
        shard == kRow ? operand.rank() < rank || operand[0] != result[0]
                      : operand.rank() == 0 || operand[operand.rank() - 1] != result[rank - 1];
    return repeats ? kR : shard;
  };
  return {level(dp.cube), level(dp.pe), dp.num_cubes, dp.num_pes};
}

class Trial {
 public:
  Trial(OperatorsUnderTest& dut, const Row& row, std::vector<Shape> shapes, const Shape& result,
        const DPPolicy& dp, DType dtype)
      : row_(row), shapes_(std::move(shapes)), result_(result), dtype_(dtype) {
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      elements_.push_back(operand(shapes_[i].numel(), static_cast<int>(i), row.least));
      tensors_.push_back(
          dut.tensor(shapes_[i], elements_.back(), policy_beside(dp, shapes_[i], result), dtype)
              .requires_grad_());
    }
    const Tensor y = row.of(tensors_);
    check_forward(y.to_vector());
    CHECK(y.shape() == result);
    CHECK(y.dtype() == (row.has_gradient ? dtype : DType::boolean));  // comparisons have none
    CHECK(y.requires_grad() == row.has_gradient);
    if (!row.has_gradient) return;
    gradient_ = sixteenths(result.numel(), 3);
    y.backward(dut.tensor(result, gradient_, y.dp(), dtype));
    for (std::size_t i = 0; i < tensors_.size(); ++i) check_gradient(i);
  }

 private:
  Reals operands_of(std::int64_t index) const {
    Reals reals{};
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      reals[i] = elements_[i][source_of(result_, shapes_[i], index)];
    }
    return reals;
  }

  void check(float is, double wanted, double magnitude) const {
    INFO(row_.name << " " << name_of(dtype_) << ": " << is << " for " << wanted);
    CHECK(std::abs(is - wanted) <=
          std::max(1.0, magnitude) * (unit_of(dtype_) + row_.steps * 0x1p-23));
  }

  void check_forward(const Floats& y) const {
    for (std::int64_t i = 0; i < result_.numel(); ++i) {
      const double wanted = row_.reference(operands_of(i));
      check(y[static_cast<std::size_t>(i)], wanted, std::abs(wanted));
    }
  }

  // Each element of the result contributes its gradient times the slope, by finite differences; it
  // is rounded before the contributions of a repeated element are added up.
  void check_gradient(std::size_t which) const {
    constexpr double kStep = 1e-5;
    std::vector<double> wanted(elements_[which].size(), 0);
    std::vector<double> magnitude(wanted.size(), 0);
    for (std::int64_t i = 0; i < result_.numel(); ++i) {
      Reals above = operands_of(i);
      Reals below = above;
      above[which] += kStep;
      below[which] -= kStep;
      const double slope = (row_.reference(above) - row_.reference(below)) / (2 * kStep);
      const std::size_t at = source_of(result_, shapes_[which], i);
      const double term = gradient_[static_cast<std::size_t>(i)] * slope;
      wanted[at] += term;
      magnitude[at] += 2 * std::abs(term) + 1;
    }
    const Tensor grad = tensors_[which].grad();
    if (!grad.defined()) {
      for (const double none : wanted) CHECK(none == 0);
      return;
    }
    const Floats is = grad.to_vector();
    for (std::size_t i = 0; i < is.size(); ++i) check(is[i], wanted[i], magnitude[i]);
  }

  const Row& row_;
  const std::vector<Shape> shapes_;
  const Shape result_;
  const DType dtype_;
  std::vector<Floats> elements_;
  std::vector<Tensor> tensors_;
  Floats gradient_;
};

DType type_of(Gives gives, DType dtype) {
  switch (gives) {
    case Gives::f32:
      return DType::f32;
    case Gives::i64:
      return DType::i64;
    case Gives::boolean:
      return DType::boolean;
    default:
      return dtype;
  }
}

// Checks a row with a type that has no gradients.
void check_without_gradient(OperatorsUnderTest& dut, const Row& row,
                            const std::vector<Shape>& shapes, const Shape& result,
                            const DPPolicy& dp, DType dtype) {
  const Gives gives = is_float8(dtype)          ? row.floats8
                      : dtype == DType::boolean ? row.booleans
                                                : row.integers;
  std::vector<Floats> elements;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    elements.push_back(whole_operand(shapes[i].numel(), static_cast<int>(i), row.least, dtype));
    tensors.push_back(
        dut.tensor(shapes[i], elements.back(), policy_beside(dp, shapes[i], result), dtype));
  }
  INFO(row.name << " " << name_of(dtype) << " " << to_string(dp));
  if (gives == Gives::refused) {
    CHECK_THAT(error([&] { row.of(tensors); }), Says("KB-F002"));
    return;
  }
  const Tensor y = row.of(tensors);
  CHECK(y.dtype() == type_of(gives, dtype));
  CHECK(y.shape() == result);
  const Floats is = y.to_vector();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    Reals reals{};
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      reals[k] = elements[k][source_of(result, shapes[k], i)];
    }
    const double real = row.reference(reals);
    const double wanted = y.dtype() == DType::boolean ? static_cast<double>(real != 0) : real;
    const double bound = y.dtype() == DType::f32 ? (row.steps + 0.5) * 0x1p-23 : 0;
    CHECK(std::abs(is[static_cast<std::size_t>(i)] - wanted) <=
          bound * std::max(1.0, std::abs(wanted)));
  }
}

// A third operand has the shape of the second, but other elements.
std::vector<Shape> shapes_of(const Row& row, const Shape& a, const Shape& b) {
  return row.operands == 3 ? std::vector{a, b, b} : std::vector{a, b};
}

std::vector<DPPolicy> policies() {
  return {DPPolicy::on_one_pe(), on_pes(kRow),          on_pes(kColumn),
          on_cubes(kR),          on_all(kRow, kColumn), on_all(kColumn, kR)};
}

TEST_CASE("functions of a tensor, and their gradients", "[elementwise][table]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  for (const Row& row : functions_of_one()) {
    for (const DPPolicy& dp : policies()) {
      const Trial trial(dut, row, {{3, 7}}, {3, 7}, dp, dtype);
    }
  }
}

TEST_CASE("functions of two tensors that broadcast, and their gradients", "[elementwise][table]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  struct Shapes {
    Shape a;
    Shape b;
    Shape result;
  };
  for (const auto& [a, b, result] :
       {Shapes{{3, 5}, {3, 5}, {3, 5}}, Shapes{{3, 5}, {5}, {3, 5}}, Shapes{{3, 1}, {3, 5}, {3, 5}},
        Shapes{{3, 5}, {}, {3, 5}}, Shapes{{3, 1}, {5}, {3, 5}},
        Shapes{{2, 1, 5}, {3, 1}, {2, 3, 5}}, Shapes{{4, 1, 3, 1}, {2, 1, 5}, {4, 2, 3, 5}}}) {
    for (const Row& row : functions_of_two()) {
      for (const DPPolicy& dp : {on_pes(kR), on_pes(kRow), on_all(kRow, kColumn)}) {
        const Trial trial(dut, row, shapes_of(row, a, b), result, dp, dtype);
      }
    }
  }
}

TEST_CASE("functions of integers, bool and 8-bit numbers", "[elementwise][table]") {
  OperatorsUnderTest dut;
  const DType dtype =
      GENERATE(DType::i32, DType::i64, DType::boolean, DType::f8e4m3fn, DType::f8e5m2);
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_all(kRow, kColumn)}) {
    for (const Row& row : functions_of_one()) {
      check_without_gradient(dut, row, {{3, 7}}, {3, 7}, dp, dtype);
    }
    for (const Row& row : functions_of_two()) {
      check_without_gradient(dut, row, shapes_of(row, {3, 1}, {3, 5}), {3, 5}, dp, dtype);
    }
  }
}

TEST_CASE("quotients and multiples of sums of holders are such sums", "[elementwise][table]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.leaf({2, 3}, 1, on_pes(kPartial));
  const Tensor b = dut.tensor({3}, {1, 2, 4}, on_pes(kR));
  for (const Tensor& y : {a / b, a / 2, -a}) CHECK(y.dp() == on_pes(kPartial));
  const Floats of_a = a.to_vector();
  const Floats quotients = (a / b).to_vector();
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(quotients[i] == of_a[i] / std::array{1.0F, 2.0F, 4.0F}[i % 3]);
  CHECK_THAT(error([&] { b / a; }), Says("KB-F003", "div", "the first be partial"));
  CHECK_THAT(error([&] { a + 1; }), Says("KB-F003", "add", "all_reduce it first"));
  CHECK_THAT(error([&] { exp(a); }), Says("KB-F003", "exp", "all_reduce it first"));
}

TEST_CASE("what does not broadcast is refused in torch's words", "[elementwise][table]") {
  OperatorsUnderTest dut;
  CHECK_THAT(error([&] {
               dut.leaf({2, 3}, 1) + dut.leaf({2}, 1);
             }),
             Says("KB-F001",
                  "The size of tensor a (3) must match the size of tensor b (2) at "
                  "non-singleton dimension 1"));
}

TEST_CASE("to() rounds to another type, and its gradient back", "[elementwise][table]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2}, {1.0F + 0x1p-9F, 3}).requires_grad_();
  const Tensor y = x.to(DType::bf16);
  CHECK(y.dtype() == DType::bf16);
  CHECK(y.to_vector() == Floats{1, 3});
  sum(y * y).backward();
  CHECK(x.grad().dtype() == DType::f32);
  CHECK(x.grad().to_vector() == Floats{2, 6});
  CHECK(x.to(DType::f32).storage() == x.storage());
}

}  // namespace
}  // namespace kernbench::test::elementwise_table_test
