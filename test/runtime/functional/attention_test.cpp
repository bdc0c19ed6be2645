#include "runtime/functional/attention.h"

#include "runtime/functional/cross_entropy.h"
#include "runtime/functional/normalization.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test {
namespace {

namespace F = nn::functional;

constexpr Shard kR = Shard::replicate;
constexpr Shard kRow = Shard::row_wise;
constexpr Shard kColumn = Shard::column_wise;
constexpr Shard kPartial = Shard::partial;

// Rows of `columns`, each exp(x - max) / sum, of those that `sees` allows.
std::vector<double> softmax(const std::vector<double>& x, std::size_t columns,
                            const std::function<bool(std::size_t, std::size_t)>& sees) {
  std::vector<double> y(x.size(), 0);
  for (std::size_t row = 0; row < x.size() / columns; ++row) {
    double total = 0;
    for (std::size_t i = 0; i < columns; ++i) {
      if (sees(row, i)) total += y[row * columns + i] = std::exp(x[row * columns + i]);
    }
    for (std::size_t i = 0; i < columns; ++i) y[row * columns + i] /= total;
  }
  return y;
}

bool all(std::size_t, std::size_t) {
  return true;
}

void check_near(const Floats& computed, const std::vector<double>& expected, double bound) {
  REQUIRE(computed.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(std::abs(computed[i] - expected[i]) <= bound);
  }
}

TEST_CASE("softmax of rows, however other dimensions are cut", "[attention]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  for (const Shape& shape :
       {Shape{3, 5}, Shape{2, 3, 4}, Shape{7, 1}, Shape{0, 3}, Shape{2, 9001}}) {
    const Floats x = sixteenths(shape.numel(), 1);
    const Tensor y = F::softmax(dut.tensor(shape, x, on_pes(pe)));
    CHECK(y.dp() == on_pes(pe));
    const auto columns = static_cast<std::size_t>(shape[shape.rank() - 1]);
    // exp, a sum and a quotient: a few units of 2^-24 below 1, and as many more as the sum has.
    const double bound = (6 + static_cast<double>(columns) / 16) * std::ldexp(1.0, -24);
    check_near(y.to_vector(), softmax({x.begin(), x.end()}, columns, all), bound);
  }
}

// No derivative of a softmax of four or less is above 1; the third is below 1.
TEST_CASE("the gradient of softmax is its slope", "[attention]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  check_gradients(dut, [](const std::vector<Tensor>& in) { return F::softmax(in[0], 1); },
                  {dut.tensor({3, 4}, sixteenths(12, 1), on_pes(pe))},
                  {.third_derivative = 1, .rounding = 8});
}

TEST_CASE("softmax of f16 is rounded once", "[attention]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({1, 3}, {0, 1, 2}, DPPolicy::replicated(), DType::f16);
  const std::vector<double> expected = softmax({0, 1, 2}, 3, all);
  check_near(F::softmax(x).to_vector(), expected, std::ldexp(1.0, -12) * 1.01);
}

struct Sizes {
  std::int64_t heads;
  std::int64_t s;
  std::int64_t t;
  std::int64_t d;
  std::int64_t e;
};

std::vector<double> attention(const Floats& q, const Floats& k, const Floats& v, const Sizes& sizes,
                              double scale, bool is_causal) {
  const auto [heads, s, t, d, e] = sizes;
  std::vector<double> scores;
  const auto at = [](const Floats& x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
  for (std::int64_t row = 0; row < heads * s; ++row) {
    for (std::int64_t column = 0; column < t; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < d; ++i) {
        sum += static_cast<double>(at(q, row * d + i)) * at(k, (row / s * t + column) * d + i);
      }
      scores.push_back(scale * sum);
    }
  }
  const auto sees = [&](std::size_t row, std::size_t column) {
    return !is_causal || column <= row % static_cast<std::size_t>(s);
  };
  const std::vector<double> p = softmax(scores, static_cast<std::size_t>(t), sees);
  std::vector<double> result;
  for (std::int64_t row = 0; row < heads * s; ++row) {
    for (std::int64_t column = 0; column < e; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < t; ++i) {
        sum += p[static_cast<std::size_t>(row * t + i)] * at(v, (row / s * t + i) * e + column);
      }
      result.push_back(sum);
    }
  }
  return result;
}

TEST_CASE("attention is a softmax of scaled products, times values", "[attention]") {
  OperatorsUnderTest dut;
  const bool is_causal = GENERATE(false, true);
  const Shard pe = GENERATE(kR, kRow);
  for (const Sizes& sizes : {Sizes{2, 3, 3, 4, 4}, Sizes{3, 4, 5, 2, 3}, Sizes{1, 5, 2, 4, 1}}) {
    const auto [heads, s, t, d, e] = sizes;
    const Floats q = sixteenths(heads * s * d, 1);
    const Floats k = sixteenths(heads * t * d, 2);
    const Floats v = sixteenths(heads * t * e, 3);
    const Tensor y = F::scaled_dot_product_attention(
        dut.tensor({heads, s, d}, q, on_pes(pe)), dut.tensor({heads, t, d}, k, on_pes(pe)),
        dut.tensor({heads, t, e}, v, on_pes(pe)), {.is_causal = is_causal});
    CHECK(y.shape() == Shape{heads, s, e});
    CHECK(y.dp() == on_pes(pe));
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    check_near(y.to_vector(), attention(q, k, v, sizes, scale, is_causal), std::ldexp(40.0, -24));
  }
}

TEST_CASE("the scale of attention may be given", "[attention]") {
  OperatorsUnderTest dut;
  const Sizes sizes{1, 2, 3, 4, 2};
  const Floats q = sixteenths(8, 1);
  const Floats k = sixteenths(12, 2);
  const Floats v = sixteenths(6, 3);
  const Tensor y = F::scaled_dot_product_attention(dut.tensor({2, 4}, q), dut.tensor({3, 4}, k),
                                                   dut.tensor({3, 2}, v), {.scale = 0.25});
  check_near(y.to_vector(), attention(q, k, v, sizes, 0.25, false), std::ldexp(40.0, -24));
}

TEST_CASE("the gradients of attention are its slopes", "[attention]") {
  OperatorsUnderTest dut;
  const bool is_causal = GENERATE(false, true);
  const auto tensor = [&](int seed) {
    return dut.tensor({2, 3, 2}, sixteenths(12, seed), on_pes(kRow));
  };
  // Scores move by at most 2 / sqrt(2) times a step, and values are at most 2.
  check_gradients(dut,
                  [=](const std::vector<Tensor>& in) {
                    return F::scaled_dot_product_attention(in[0], in[1], in[2],
                                                           {.is_causal = is_causal});
                  },
                  {tensor(1), tensor(2), tensor(3)}, {.third_derivative = 6, .rounding = 40});
}

TEST_CASE("what is behind the mask gets no gradient", "[attention]") {
  OperatorsUnderTest dut;
  const Tensor q = dut.leaf({3, 2}, 1);
  const Tensor k = dut.leaf({3, 2}, 2);
  const Tensor v = dut.leaf({3, 2}, 3);
  const Tensor y = F::scaled_dot_product_attention(q, k, v, {.is_causal = true});
  y.backward(dut.tensor({3, 2}, {1, 1, 0, 0, 0, 0}));  // the first row sees the first column alone
  CHECK(v.grad().to_vector() == Floats{1, 1, 0, 0, 0, 0});
  CHECK(q.grad().to_vector() == Floats(6, 0));
  CHECK(k.grad().to_vector() == Floats(6, 0));
}

TEST_CASE("of rows that do not fit scratch the error says what helps", "[attention]") {
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = 2048;  // 512 numbers of f32
  OperatorsUnderTest dut(topology);
  const std::string error = error_of<DeviceError>([&] { F::softmax(dut.leaf({2, 400}, 1)); });
  CHECK(error.starts_with(
      "[KB-M010] softmax: a row of 400 elements is needed whole in scratch, in f32 and several "
      "times; share columns among ranks (of logits: tp::vocab_parallel_cross_entropy), make rows "
      "shorter, or use a topology with a larger pe.tcm.capacity\n  [KB-M010] out of TCM: tl."));
  CHECK(error_of<DeviceError>([&] {
          F::layer_norm(dut.leaf({2, 400}, 1), {400});
        }).starts_with("[KB-M010] layer_norm: a row of 400 elements"));
  CHECK(error_of<DeviceError>([&] {
          F::cross_entropy(dut.leaf({2, 400}, 1), dut.tensor({2}, {0, 1}));
        }).starts_with("[KB-M010] cross_entropy: a row of 400 elements"));
}

TEST_CASE("softmax refuses rows that no PE has whole", "[attention]") {
  OperatorsUnderTest dut;
  const auto error = [&](const DPPolicy& dp, int dim) {
    return error_of<DeviceError>([&] { F::softmax(dut.leaf({2, 3}, 1, dp), dim); });
  };
  CHECK(error(on_pes(kColumn), -1).find("its rows are needed whole") != std::string::npos);
  CHECK(error(on_pes(kPartial), -1).starts_with("[KB-F003] softmax: "));
  CHECK(error(on_pes(kR), 0) ==
        "[KB-F001] softmax: dim 0 of [2, 3]; only the last one is offered: transpose() it there");
  CHECK(error_of<DeviceError>([&] { F::softmax(dut.leaf({}, 1)); }).starts_with("[KB-F001]"));
}

}  // namespace
}  // namespace kernbench::test
