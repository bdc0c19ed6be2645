#include <algorithm>

#include "runtime/functional/functional.h"
#include "test/runtime/functional/operators_under_test.h"
#include "test/runtime/functional/reference_operators.h"

namespace kernbench::test::cross_entropy_test {
namespace {

namespace F = nn::functional;
using F::Reduction;

constexpr float kIgnored = -100;

// The sums over a row's columns that a kernel makes block by block.
struct ColumnSums {
  std::size_t columns;
  Bounded largest;
  Bounded exponentials;
  Bounded deviations;

  explicit ColumnSums(const Numbers& logits) : columns(logits.size()), largest(logits[0]) {
    for (const Bounded& x : logits) largest.value = std::max(largest.value, x.value);
    Numbers x;
    Numbers exponential;
    for (const Bounded& logit : logits) {
      x.push_back(logit - largest);
      exponential.push_back(exp(x.back()));
    }
    exponentials = sum(exponential);
    deviations = sum(x);
  }

  void join(const ColumnSums& other) {
    const Bounded joined = std::max(largest.value, other.largest.value);
    const Bounded shift = largest - joined;
    const Bounded other_shift = other.largest - joined;
    exponentials = exponentials * exp(shift) + other.exponentials * exp(other_shift);
    deviations = (deviations + shift * count(columns)) +
                 (other.deviations + other_shift * count(other.columns));
    largest = joined;
    columns += other.columns;
  }

  static Bounded count(std::size_t n) { return static_cast<double>(n); }
};

// Logits [rows, classes] and their targets.
struct Rows {
  Floats logits;
  Floats targets;
  double smoothing;
  std::size_t classes = 7;
  std::size_t width = classes;  // of a block of columns

  double of_each() const { return smoothing / static_cast<double>(classes); }
  Numbers logits_of(std::size_t row) const { return row_of(exactly(logits), row, classes); }

  ColumnSums sums_of(std::size_t row) const {
    const Numbers all = logits_of(row);
    const auto block = [&](std::size_t begin) {
      const std::size_t end = std::min(begin + width, classes);
      return ColumnSums(Numbers(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                all.begin() + static_cast<std::ptrdiff_t>(end)));
    };
    ColumnSums sums = block(0);
    for (std::size_t begin = width; begin < classes; begin += width) sums.join(block(begin));
    return sums;
  }

  Numbers losses() const {
    Numbers result;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      result.push_back(targets[row] == kIgnored ? 0 : loss_of(row));
    }
    return result;
  }
  Bounded loss_of(std::size_t row) const {
    const ColumnSums sums = sums_of(row);
    const Bounded picked = logits_of(row)[static_cast<std::size_t>(targets[row])] - sums.largest;
    const Bounded loss = log(sums.exponentials) - picked * Bounded::number(1 - smoothing);
    return smoothing == 0 ? loss : loss - sums.deviations * Bounded::number(of_each());
  }

  // `gradients` are those of the losses.
  Numbers gradients_of_logits(const Numbers& gradients, DType dtype) const {
    Numbers result;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      append(result, targets[row] == kIgnored ? Numbers(classes)
                                              : gradients_of_row(row, gradients[row], dtype));
    }
    return result;
  }
  Numbers gradients_of_row(std::size_t row, const Bounded& gradient, DType dtype) const {
    const ColumnSums sums = sums_of(row);
    Numbers slopes;
    for (const Bounded& x : logits_of(row)) {
      slopes.push_back(exp(x - sums.largest) / sums.exponentials);
    }
    Bounded& of_target = slopes[static_cast<std::size_t>(targets[row])];
    of_target = of_target - Bounded::number(1 - smoothing);
    for (Bounded& slope : slopes) {
      if (smoothing != 0) slope = slope - Bounded::number(of_each());
      slope = rounded(slope * gradient, dtype);
    }
    return slopes;
  }
};

Numbers times(const Numbers& x, const Bounded& factor) {
  Numbers result;
  for (const Bounded& element : x) result.push_back(element * factor);
  return result;
}

Floats rest_of(const Tensor& x, std::ptrdiff_t first) {
  const Floats all = x.to_vector();
  return {all.begin() + first, all.end()};
}

// torch: cross_entropy([[1, 0], [0, 5]], [1, -100]) is log(e + 1) = 1.3133, the first row's alone.
TEST_CASE("a row whose target is ignore_index does not count", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  const double smoothing = GENERATE(0.0, 0.25);
  const DType dtype = GENERATE(DType::f16, DType::f32);
  const Floats logits = {1, 0, 0, 5, 7, 7};
  const double of_first = std::log(std::exp(1.0) + 1) - smoothing / 2;
  const auto check = [&](Reduction reduction, const Floats& targets, std::int64_t ignore_index) {
    const Tensor x = dut.tensor({3, 2}, logits, on_pes(pe), dtype).requires_grad_();
    const Tensor loss = F::cross_entropy(
        x, dut.tensor({3}, targets, on_pes(pe)),
        {.label_smoothing = smoothing, .reduction = reduction, .ignore_index = ignore_index});
    if (reduction == Reduction::none) {
      CHECK(std::abs(loss.to_vector()[0] - of_first) <= std::ldexp(8 * 2.0, -24));
      CHECK(rest_of(loss, 1) == Floats{0, 0});
      loss.backward(dut.tensor({3}, {1, 1, 1}, on_pes(pe)));
    } else {
      CHECK(std::abs(loss.item() - of_first) <= std::ldexp(8 * 2.0, -24));
      loss.backward();
    }
    const double slope = std::exp(1.0) / (std::exp(1.0) + 1) - smoothing / 2;
    const double bound = dtype == DType::f16 ? 0x1p-11 : std::ldexp(8.0, -24);
    CHECK(std::abs(x.grad().to_vector()[0] - slope) <= bound);
    CHECK(std::abs(x.grad().to_vector()[1] + slope) <= bound);
    CHECK(rest_of(x.grad(), 2) == Floats(4, 0));
  };
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    check(reduction, {1, -100, -100}, -100);
    check(reduction, {1, 0, 0}, 0);
  }
}

TEST_CASE("without a row that counts the mean is NaN, the sum 0 and the gradient 0",
          "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  const Tensor targets = dut.tensor({2}, {-100, -100}, on_pes(pe));
  const auto logits = [&] { return dut.leaf({2, 3}, 1, on_pes(pe)); };
  const Tensor x = logits();
  const Tensor mean = F::cross_entropy(x, targets);
  CHECK(std::isnan(mean.item()));
  mean.backward();
  CHECK(x.grad().to_vector() == Floats(6, 0));
  CHECK(F::cross_entropy(logits(), targets, {.reduction = Reduction::sum}).item() == 0);
}

TEST_CASE("a target that is no class is refused in PyTorch's words", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 3}, 1);
  const auto error = [&](const Floats& targets) {
    return error_of<DeviceError>([&] {
      F::cross_entropy(x, dut.tensor({2}, targets, DPPolicy::on_one_pe(), DType::f32, "t"));
    });
  };
  CHECK_THAT(error({0, 3}), Says("KB-F004", "Target 3 is out of bounds", "'t' [2]", "from 0 to 2",
                                 "ignore_index"));
  CHECK_THAT(error({-1, 0}), Says("KB-F004", "Target -1 is out of bounds"));
  CHECK_THAT(error({0.5, 0}), Says("KB-F004", "Target 0.5 is out of bounds"));
}

TEST_CASE("without data all rows count", "[cross_entropy]") {
  RuntimeContext torch(six_pe_topology(), {.data = false});
  const Tensor x = torch.zeros({2, 3}, {.dp = DPPolicy::on_one_pe()});
  F::cross_entropy(x, torch.zeros({2}, {.dp = DPPolicy::on_one_pe()}));
  torch.ahbm.synchronize();
  CHECK(torch.engine().now() > Time{0});
}

TEST_CASE("cross_entropy and its gradient against plain loops, with each reduction",
          "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  const double smoothing = GENERATE(0.0, 0.1, 1.0);
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Rows rows{sixteenths(5 * 7, 1), {0, 6, 3, 3, 1}, smoothing};
  const Tensor targets = dut.tensor({5}, rows.targets, on_pes(pe));
  const auto logits = [&] {
    return dut.tensor({5, 7}, rows.logits, on_pes(pe), dtype).requires_grad_();
  };
  const Numbers losses = rows.losses();
  {
    const Tensor x = logits();
    const Tensor each =
        F::cross_entropy(x, targets, {.label_smoothing = smoothing, .reduction = Reduction::none});
    CHECK(each.dtype() == DType::f32);
    check_within(each.to_vector(), losses);
    const Floats dy = sixteenths(5, 3);
    each.backward(dut.tensor({5}, dy, on_pes(pe)));
    check_within(x.grad().to_vector(), rows.gradients_of_logits(exactly(dy), dtype));
  }
  // Sums of five, by holders or not: at most five additions deep.
  {
    const Tensor x = logits();
    const Tensor total =
        F::cross_entropy(x, targets, {.label_smoothing = smoothing, .reduction = Reduction::sum});
    check_within({total.item()}, {sum_of(losses, 5)});
    total.backward();
    check_within(x.grad().to_vector(), rows.gradients_of_logits(Numbers(5, 1), dtype));
  }
  {
    const Tensor x = logits();
    const Tensor mean = F::cross_entropy(x, targets, {.label_smoothing = smoothing});
    const Bounded fifth = Bounded::number(0.2);
    CHECK(mean.dp().pe == (pe == kR ? kR : Shard::partial));
    check_within({mean.item()}, {sum_of(times(losses, fifth), 5)});
    mean.backward();
    check_within(x.grad().to_vector(), rows.gradients_of_logits(Numbers(5, fifth), dtype));
  }
}

// With 2 KiB of scratch, 512 numbers of f32, kernels work on blocks of 8 columns.
constexpr std::size_t kBlock = 8;
Topology topology_with_small_scratch() {
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = 2048;
  return topology;
}

TEST_CASE("rows that do not fit scratch are computed in blocks of columns", "[cross_entropy]") {
  OperatorsUnderTest dut(topology_with_small_scratch());
  const Shard pe = GENERATE(kR, kRow);
  const double smoothing = GENERATE(0.0, 0.1);
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  constexpr std::int64_t kClasses = 603;
  const Rows rows{
      sixteenths(5 * kClasses, 1), {0, 602, kIgnored, 305, 8}, smoothing, kClasses, kBlock};
  const Tensor x = dut.tensor({5, kClasses}, rows.logits, on_pes(pe), dtype).requires_grad_();
  const Tensor each =
      F::cross_entropy(x, dut.tensor({5}, rows.targets, on_pes(pe)),
                       {.label_smoothing = smoothing, .reduction = Reduction::none});
  check_within(each.to_vector(), rows.losses());
  const Floats dy = sixteenths(5, 3);
  each.backward(dut.tensor({5}, dy, on_pes(pe)));
  check_within(x.grad().to_vector(), rows.gradients_of_logits(exactly(dy), dtype));
}

// A row that rises has a new maximum in each block, and one that falls has it in the first.
TEST_CASE("the largest logit may be in any block of columns", "[cross_entropy]") {
  OperatorsUnderTest dut(topology_with_small_scratch());
  const double smoothing = GENERATE(0.0, 0.1);
  Floats logits;
  for (int column = 0; column < 30; ++column) logits.push_back(static_cast<float>(2 * column));
  const Floats reverse(logits.rbegin(), logits.rend());
  logits.insert(logits.end(), reverse.begin(), reverse.end());
  const Rows rows{logits, {28, 29}, smoothing, 30, kBlock};
  const Tensor x = dut.tensor({2, 30}, logits).requires_grad_();
  const Tensor each =
      F::cross_entropy(x, dut.tensor({2}, rows.targets),
                       {.label_smoothing = smoothing, .reduction = Reduction::none});
  check_within(each.to_vector(), rows.losses());
  each.backward(dut.tensor({2}, {1, 1}));
  check_within(x.grad().to_vector(), rows.gradients_of_logits(Numbers(2, 1), DType::f32));
}

TEST_CASE("blocks of columns that are all -inf count as nothing", "[cross_entropy]") {
  OperatorsUnderTest dut(topology_with_small_scratch());
  Floats logits(30, -INFINITY);
  logits[12] = logits[20] = 1;
  const Tensor x = dut.tensor({1, 30}, logits).requires_grad_();
  const Tensor loss = F::cross_entropy(x, dut.tensor({1}, {20}));
  CHECK(std::abs(loss.item() - std::log(2.0)) <= std::ldexp(2.0, -24));
  loss.backward();
  Floats gradient(30, 0);
  gradient[12] = 0.5F;
  gradient[20] = -0.5F;
  CHECK(x.grad().to_vector() == gradient);
}

TEST_CASE("without a finite logit the loss is NaN, as torch's", "[cross_entropy]") {
  OperatorsUnderTest dut(topology_with_small_scratch());
  const std::int64_t classes = GENERATE(3, 30);
  const Tensor x = dut.tensor({1, classes}, Floats(static_cast<std::size_t>(classes), -INFINITY));
  CHECK(std::isnan(F::cross_entropy(x.requires_grad_(), dut.tensor({1}, {1})).item()));
}

TEST_CASE("cross_entropy has PyTorch's worked numbers", "[cross_entropy]") {
  OperatorsUnderTest dut;
  // log(e + e^2 + e^3) - 3 and log(e^.5 + e^-.5 + e) - .5
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 0.5F, -0.5F, 1});
  const double first = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 3;
  const double second = std::log(std::exp(0.5) + std::exp(-0.5) + std::exp(1.0)) - 0.5;
  // Losses below 2, of a logarithm, an exponential and three additions, and a mean of two.
  CHECK(std::abs(F::cross_entropy(x, dut.tensor({2}, {2, 0})).item() - (first + second) / 2) <=
        std::ldexp(8 * 2.0, -24));
}

TEST_CASE("as many classes as rows are not confused", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {0, 0, 0, 0}).requires_grad_();
  F::cross_entropy(x, dut.tensor({2}, {1, 1}), {.reduction = Reduction::none})
      .backward(dut.tensor({2}, {2, 4}));
  CHECK(x.grad().to_vector() == Floats{1, -1, 2, -2});
}

TEST_CASE("large logits do not overflow, and those of f16 give a loss in f32", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Tensor x =
      dut.tensor({1, 2}, {1000, -1000}, DPPolicy::on_one_pe(), DType::f16).requires_grad_();
  const Tensor loss = F::cross_entropy(x, dut.tensor({1}, {1}));
  CHECK(loss.dtype() == DType::f32);
  CHECK(loss.item() == 2000);
  loss.backward();
  CHECK(x.grad().dtype() == DType::f16);
  CHECK(x.grad().to_vector() == Floats{1, -1});
}

// Their difference alone counts; f32 has seven digits of 30000.
TEST_CASE("the loss of large logits that are close has all its digits", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const double smoothing = GENERATE(0.0, 0.1);
  const Tensor x = dut.tensor({1, 2}, {30'000, 29'999});
  const double expected = std::log1p(std::exp(-1.0)) + (1 - smoothing) + smoothing / 2;
  const Tensor loss = F::cross_entropy(x, dut.tensor({1}, {1}), {.label_smoothing = smoothing});
  CHECK(std::abs(loss.item() - expected) <= std::ldexp(4.0, -24) * 2);
}

TEST_CASE("cross_entropy refuses what it cannot use", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const auto error = [](const Tensor& x, const Tensor& y, double smoothing = 0) {
    return error_of<DeviceError>([&] { F::cross_entropy(x, y, {.label_smoothing = smoothing}); });
  };
  const Tensor x = dut.leaf({2, 3}, 1, on_pes(kR));
  const Tensor y = dut.leaf({2}, 1, on_pes(kR));
  CHECK_THAT(error(x, dut.leaf({3}, 1, on_pes(kR))),
             Says("KB-F001", "Expected input batch_size (2) to match target batch_size (3)."));
  CHECK_THAT(error(x, dut.leaf({2}, 1, on_pes(kR), DType::f16)), Says("KB-F002"));
  CHECK_THAT(error(x, dut.leaf({2}, 1, on_pes(kRow))),
             Says("KB-F003", "targets must be cut as the rows are"));
  CHECK_THAT(error(dut.leaf({2, 3}, 1, on_pes(Shard::column_wise)), y),
             Says("KB-F003", "its rows are needed whole"));
  CHECK_THAT(error(x, y, 2),
             Says("KB-F001", "label_smoothing must be between 0.0 and 1.0. Got: 2"));
}

}  // namespace
}  // namespace kernbench::test::cross_entropy_test
