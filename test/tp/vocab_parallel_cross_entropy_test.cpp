// The loss over a vocabulary that is cut over ranks, against the dense one in double.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/distributed/group.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"
#include "tp/parameter.h"

namespace kernbench::test::vocab_parallel_cross_entropy_test {
namespace {

using tp::vocab_parallel_cross_entropy;

// In Megatron's definition of label smoothing, over the whole vocabulary.
struct DenseLoss {
  std::vector<double> losses;
  std::vector<double> gradient;  // of their sum

  DenseLoss(const Matrix& logits, const Floats& target, double label_smoothing) {
    const auto v = static_cast<double>(logits.columns);
    const double s = label_smoothing * v / (v - 1);
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const auto correct = static_cast<std::int64_t>(target[static_cast<std::size_t>(i)]);
      double exponentials = 0;
      double sum = 0;
      for (std::int64_t j = 0; j < logits.columns; ++j) {
        exponentials += std::exp(static_cast<double>(logits.at(i, j)));
        sum += logits.at(i, j);
      }
      losses.push_back(std::log(exponentials) - (1 - s) * logits.at(i, correct) - s * sum / v);
      for (std::int64_t j = 0; j < logits.columns; ++j) {
        gradient.push_back(std::exp(static_cast<double>(logits.at(i, j))) / exponentials -
                           (j == correct ? 1 - s : 0) - s / v);
      }
    }
  }
};

// How far f32 may be off, with u = 2^-24, for n words whose logits lie within `range` of the
// largest.  Exponentials by u of each, their sum by n u, and so the log, absolutely; that, at most
// range + log n, by another u of it, as the last difference; the smoothed logit by n + 2 roundings
// of at most range.  Quotients and differences of probabilities are off by less.
double bound_of_loss(std::int64_t n, double range) {
  const auto words = static_cast<double>(n);
  return (words + 2 * (range + std::log(words)) + (words + 2) * range) * std::ldexp(1.0, -24);
}

void check_close(const Floats& values, const std::vector<double>& expected, double bound) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(std::abs(values[i] - expected[i]) <= bound);
  }
}

// Checks each of `ranks` ranks.  The logits are eighths between -2 and 2.
void check_against_dense(int ranks, const std::string& backend, double label_smoothing) {
  CAPTURE(ranks, backend, label_smoothing);
  Matrix logits = Matrix::of_integers(5, 24, 16, 3);
  for (float& x : logits.elements) x /= 8;
  const Floats target = {0, 23, 7, 12, 11};
  const DenseLoss dense(logits, target, label_smoothing);
  TensorParallelWorld world(
      ranks, {.backend = backend, .parallel = {.tensor_model_parallel_size = ranks}});
  world.spawn([&](int rank) {
    const Matrix own = logits.columns_of(rank, ranks);
    const Tensor x = world.leaf(own);
    const Tensor loss =
        vocab_parallel_cross_entropy(world.torch, x, world.tensor(target, {5}),
                                     {.label_smoothing = label_smoothing, .vocab_size = 24});
    const double bound = bound_of_loss(24, 4);
    check_close(loss.to_vector(), dense.losses, bound);
    loss.backward(world.filled({5}, 1));
    Matrix gradient(5, 24);
    std::ranges::copy(dense.gradient, gradient.elements.begin());
    const Floats expected = gradient.columns_of(rank, ranks).elements;
    check_close(x.grad().to_vector(), {expected.begin(), expected.end()}, bound);
    CHECK(x.to_vector() == own.elements);  // Megatron's would be overwritten
  });
}

TEST_CASE("loss and gradient are those of the whole vocabulary, with label smoothing too",
          "[tp][cross_entropy]") {
  for (const char* backend : {"local", "ahbm"}) {
    for (const int ranks : {1, 2, 3, 4, 6}) {
      for (const double smoothing : {0.0, 0.1}) check_against_dense(ranks, backend, smoothing);
    }
  }
}

TEST_CASE("targets and ids may be of i64", "[tp][cross_entropy][embedding]") {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  world.spawn([&](int rank) {
    const Matrix logits = Matrix::of_integers(4, 6, 5, 3).columns_of(rank, 2);
    const Floats numbers{0, 5, 2, 3};
    const Tensor target = world.tensor(numbers, {4});
    const auto loss_of = [&](const Tensor& classes) {
      const Tensor x = world.leaf(logits);
      const Tensor loss =
          vocab_parallel_cross_entropy(world.torch, x, classes, {.label_smoothing = 0.1});
      loss.backward(world.filled({4}, 1));
      return std::pair(loss.to_vector(), x.grad().to_vector());
    };
    CHECK(loss_of(target.to(DType::i64)) == loss_of(target));
    const tp::VocabParallelEmbedding words(world.torch, {.num_embeddings = 6, .embedding_dim = 4});
    CHECK(words.forward(target.to(DType::i64).reshape({2, 2})).to_vector() ==
          words.forward(target.reshape({2, 2})).to_vector());
  });
}

// log(16 sum(e^i)) - target % 8.
TEST_CASE("Megatron's case: 16 tokens, 4 ranks with logits 0 to 7 over and over",
          "[tp][cross_entropy]") {
  TensorParallelWorld world(4, {.parallel = {.tensor_model_parallel_size = 4}});
  world.spawn([&](int) {
    Matrix logits(16, 32);
    Floats target;
    for (std::size_t i = 0; i < logits.elements.size(); ++i) {
      logits.elements[i] = static_cast<float>(i % 8);
    }
    for (int i = 0; i < 16; ++i) target.push_back(static_cast<float>(2 * i));
    const Floats loss =
        vocab_parallel_cross_entropy(world.torch, world.tensor(logits), world.tensor(target, {16}))
            .to_vector();
    const Floats four = {10.2309F, 8.2309F, 6.2309F, 4.2309F};
    for (std::size_t i = 0; i < loss.size(); ++i) {
      CHECK(loss[i] == Approx(four[i % 4]).margin(1e-4));
    }
  });
}

TEST_CASE("three all_reduces go over the group that is given, even of one rank",
          "[tp][cross_entropy]") {
  TensorParallelWorld world(2, {});
  world.spawn([&](int) {
    const auto group = tp::get_data_parallel_group(world.torch);
    const auto calls = [&] { return group.group()->ledger.next_sequence(0); };
    const std::uint64_t before = calls();
    const Tensor x = world.tensor({1, 2, 3, 0.5F, -0.5F, 1}, {2, 3});
    const Tensor target = world.tensor({2, 0}, {2});
    vocab_parallel_cross_entropy(world.torch, x, target, {.tp_group = group});
    CHECK(calls() == before + 3);
    const auto alone = tp::get_tensor_model_parallel_group(world.torch);
    const std::uint64_t alone_before = alone.group()->ledger.next_sequence(0);
    const Floats loss = vocab_parallel_cross_entropy(world.torch, x, target).to_vector();
    CHECK(alone.group()->ledger.next_sequence(0) == alone_before + 3);
    check_close(loss, DenseLoss({2, 3, {1, 2, 3, 0.5F, -0.5F, 1}}, {2, 0}, 0).losses,
                bound_of_loss(3, 2));
  });
}

TEST_CASE("tokens of two dimensions in f16, cut over the PEs of a device", "[tp][cross_entropy]") {
  const Matrix logits = Matrix::of_integers(12, 8, 4, 1);
  Floats target;
  for (int i = 0; i < 12; ++i) target.push_back(static_cast<float>(i * 5 % 8));
  const DenseLoss dense(logits, target, 0);
  for (const char* backend : {"local", "ahbm"}) {
    TensorParallelWorld world(2,
                              {.backend = backend, .parallel = {.tensor_model_parallel_size = 2}});
    world.spawn([&](int rank) {
      const DPPolicy rows = tp::policy_over_pes(Shard::row_wise, 1, 2);
      Tensor x = world.tensor(logits.columns_of(rank, 2).elements, {4, 3, 4},
                              {.dtype = DType::f16, .dp = rows});
      x.requires_grad_();
      const Tensor loss =
          vocab_parallel_cross_entropy(world.torch, x, world.tensor(target, {4, 3}, {.dp = rows}));
      CHECK(loss.shape() == Shape{4, 3});
      check_close(loss.to_vector(), dense.losses, bound_of_loss(8, 8));
      loss.backward(world.tensor(Floats(12, 1), {4, 3}, {.dp = rows}));
      Matrix gradient(12, 8);
      std::ranges::copy(dense.gradient, gradient.elements.begin());
      const Floats expected = gradient.columns_of(rank, 2).elements;
      const Floats got = x.grad().to_vector();
      // One rounding to f16, of numbers below 1, beside what f32 is off; `expected` is in f32.
      check_close(got, {expected.begin(), expected.end()},
                  std::ldexp(1.0, -12) + bound_of_loss(8, 8));
    });
  }
}

TEST_CASE("the loss stays finite for large logits", "[tp][cross_entropy]") {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  world.spawn([&](int rank) {
    const float large = rank == 0 ? 30'000.0F : -30'000.0F;
    const Tensor x = world.tensor({large, large - 1}, {1, 2});
    const Floats loss =
        vocab_parallel_cross_entropy(world.torch, x, world.tensor({1}, {1})).to_vector();
    CHECK(loss.front() == Approx(std::log(1 + std::exp(-1.0)) + 1));
  });
}

TEST_CASE("the gradient of a loss whose own is a sum of holders is one, too",
          "[tp][cross_entropy]") {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  world.spawn([&](int) {
    const TensorOptions on_both{.dp = tp::policy_over_pes(Shard::replicate, 1, 2)};
    const Tensor target = world.tensor({1, 2}, {2}, on_both);
    const auto gradient = [&](const Tensor& dy) {
      const Tensor x = world.leaf(Matrix::of_integers(2, 2, 2, 1), on_both);
      vocab_parallel_cross_entropy(world.torch, x, target).backward(dy);
      return x.grad();
    };
    Tensor dy = world.torch.zeros({2}, {.dp = tp::policy_over_pes(Shard::partial, 1, 2)});
    dy.copy_shard_(0, RuntimeContext::tensor(Floats{1, 3}, {2}));
    dy.copy_shard_(1, RuntimeContext::tensor(Floats{1, -1}, {2}));
    const Tensor of_sum = gradient(dy);
    CHECK(of_sum.dp().pe == Shard::partial);
    const Floats expected = gradient(world.tensor({2, 2}, {2}, on_both)).to_vector();
    // 3 p - p in the place of 2 p: roundings of numbers up to 3 and 2.
    check_close(of_sum.to_vector(), {expected.begin(), expected.end()}, std::ldexp(3.0, -24));
  });
}

TEST_CASE("what does not fit is refused", "[tp][cross_entropy]") {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  world.spawn([&](int) {
    const auto refusal = [&](const Tensor& logits, const Tensor& target,
                             const tp::VocabParallelCrossEntropyOptions& options = {}) {
      return error_of<Error>(
          [&] { vocab_parallel_cross_entropy(world.torch, logits, target, options); });
    };
    const Tensor logits = world.filled({3, 4}, 1);
    const Tensor target = world.filled({3}, 1);
    CHECK_THAT(refusal(logits, world.filled({4}, 1)),
               Says("KB-T006", "logits [3, 4]", "target [4] f32"));
    CHECK_THAT(refusal(logits, target, {.label_smoothing = 1}),
               Says("KB-T006", "label_smoothing is 1"));
    CHECK_THAT(refusal(logits, target, {.vocab_size = 4}),
               Says("KB-T006", "4 words", "2 ranks", "vocabulary of 4", "cross_entropy"));
    const Tensor cut =
        world.tensor(Floats(12, 1), {3, 4}, {.dp = tp::policy_over_pes(Shard::column_wise, 1, 2)});
    const Tensor whole =
        world.tensor(Floats(3, 1), {3}, {.dp = tp::policy_over_pes(Shard::replicate, 1, 2)});
    CHECK_THAT(refusal(cut, whole), Says("KB-F003", "vocab_parallel_cross_entropy"));
  });
}

}  // namespace
}  // namespace kernbench::test::vocab_parallel_cross_entropy_test
