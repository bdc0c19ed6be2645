// Tensor-parallel training whose bits do not depend on the number of ranks.

#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/nn/layers.h"
#include "runtime/optim/optimizer.h"
#include "runtime/random/generator.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"

namespace kernbench::test::blocks_test {
namespace {

using Catch::Contains;

constexpr std::int64_t kTokens = 6;
constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kHead = 2;
constexpr std::int64_t kWidth = kHeads * kHead;
constexpr std::int64_t kWords = 48;

inline const TensorOptions kOnOnePe{.dp = DPPolicy::on_one_pe()};

struct Member {
  int rank = 0;
  int ranks = 1;
};

// Fills a member's part of a parameter, which is cut along `dim`, or not if that is negative, from
// one matrix for all.
void draw(RuntimeContext& torch, const Tensor& parameter, int number, int dim, const Member& of) {
  const NoGradGuard no_grad(torch);
  const std::int64_t rows = dim == 1 ? parameter.size(0) : 1;
  const std::int64_t columns = parameter.numel() / rows;  // those of a cut vector, or of cut rows
  const std::int64_t parts = dim < 0 ? 1 : of.ranks;
  const random::Draw drawn(7, static_cast<std::uint64_t>(number));
  Floats elements;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t column = j + (dim < 0 ? 0 : of.rank * columns);
      elements.push_back(0.3F * drawn.normal(i * columns * parts + column));
    }
  }
  Tensor(parameter).copy_(RuntimeContext::tensor(elements, parameter.shape()));
}

struct Layers {
  tp::VocabParallelEmbedding embedding;
  tp::ColumnParallelLinear qkv;
  tp::RowParallelLinear projection;
  nn::LayerNorm norm;
  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
  tp::ColumnParallelLinear head;

  Layers(RuntimeContext& torch, DType dtype)
      : embedding(torch, {.num_embeddings = kWords, .embedding_dim = kWidth, .dtype = dtype}),
        qkv(torch, {.in_features = kWidth, .out_features = 3 * kWidth, .dtype = dtype}),
        projection(torch, {.in_features = kWidth, .out_features = kWidth, .dtype = dtype}),
        norm(torch, nn::LayerNormOptions(kWidth), {.dtype = dtype, .dp = DPPolicy::on_one_pe()}),
        up(torch, {.in_features = kWidth, .out_features = 4 * kWidth, .dtype = dtype}),
        down(torch, {.in_features = 4 * kWidth, .out_features = kWidth, .dtype = dtype}),
        head(torch,
             {.in_features = kWidth, .out_features = kWords, .bias = false, .dtype = dtype}) {}

  // The parameters, with the dimension along which each is cut.
  std::vector<std::pair<Tensor, int>> parameters() const {
    return {{embedding.weight, 0}, {qkv.weight, 1},    {qkv.bias, 0},    {projection.weight, 0},
            {projection.bias, -1}, {norm->weight, -1}, {norm->bias, -1}, {up.weight, 1},
            {up.bias, 0},          {down.weight, 0},   {down.bias, -1},  {head.weight, 1}};
  }

  Tensor attend(const Tensor& x) const {
    const Tensor all = reshape(qkv(x), {kBatch, kTokens, -1, 3, kHead});
    const auto part = [&](std::int64_t i) { return permute(select(all, 3, i), {0, 2, 1, 3}); };
    const Tensor y = nn::functional::scaled_dot_product_attention(
        contiguous(part(0)), contiguous(part(1)), contiguous(part(2)), {.is_causal = true});
    return projection(reshape(contiguous(permute(y, {0, 2, 1, 3})), {kBatch, kTokens, -1}));
  }

  Tensor forward(const Tensor& words) const {
    Tensor x = embedding(words);
    x = x + attend(norm(x));
    x = x + down(gelu(up(norm(x))));
    return head(x);
  }
};

struct Trained {
  Floats losses;
  std::vector<Floats> weights;  // those that ranks have parts of, put together
};

// The elements of ranks' parts of a parameter.
Floats joined(const std::vector<Floats>& parts, const Shape& shape, int dim) {
  if (dim < 0) return parts.front();
  Floats all;
  const std::int64_t rows = dim == 1 ? shape[0] : 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Floats& part : parts) {
      const std::int64_t columns = std::ssize(part) / rows;
      all.insert(all.end(), part.begin() + row * columns, part.begin() + (row + 1) * columns);
    }
  }
  return all;
}

// Operators have tiles of few rows.
Topology machine(int ranks) {
  Topology topology = round_topology(SipTopology::ring_1d, ranks, 1, 1, 1);
  topology.pe.tcm.capacity = 256 << 10;
  return topology;
}

Trained train(int ranks, DType dtype, Reproducible level, const char* backend = "ahbm") {
  TensorParallelWorld world(machine(ranks), {.backend = backend,
                                             .parallel = {.tensor_model_parallel_size = ranks},
                                             .runtime = {.reproducible = level}});
  Trained trained;
  std::vector<std::vector<Floats>> parts(12, std::vector<Floats>(static_cast<std::size_t>(ranks)));
  std::vector<Shape> shapes(12);
  std::vector<int> dims(12);
  world.spawn([&](int rank) {
    const Layers layers(world.torch, dtype);
    const auto parameters = layers.parameters();
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [parameter, dim] = parameters[i];
      draw(world.torch, parameter, static_cast<int>(i), dim, {rank, ranks});
      all.push_back(parameter);
    }
    optim::Adam optimizer(all, 0.01);
    std::vector<std::int64_t> numbers(kBatch * kTokens + 1);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<std::int64_t>(i * i * 5 % kWords);
    }
    const Tensor words = world.torch.tensor(
        std::vector<std::int64_t>(numbers.begin(), numbers.end() - 1), {kBatch, kTokens}, kOnOnePe);
    const Tensor targets = world.torch.tensor(
        std::vector<std::int64_t>(numbers.begin() + 1, numbers.end()), {kBatch, kTokens}, kOnOnePe);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      const Tensor loss = tp::vocab_parallel_cross_entropy(world.torch, layers.forward(words),
                                                           targets, {.label_smoothing = 0.1})
                              .mean();
      loss.backward();
      optimizer.step();
      const float value = loss.item<float>();
      if (rank == 0) trained.losses.push_back(value);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      shapes[i] = all[i].shape();
      dims[i] = parameters[i].second;
      parts[i][static_cast<std::size_t>(rank)] = all[i].to_vector();
    }
  });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    trained.weights.push_back(joined(parts[i], shapes[i], dims[i]));
  }
  return trained;
}

TEST_CASE("tensor-parallel training in blocks has the same bits on 1 to 16 ranks", "[tp][blocks]") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  CAPTURE(name_of(dtype));
  const Trained alone = train(1, dtype, Reproducible::pairs);
  REQUIRE(alone.losses.size() == 2);
  CHECK(alone.losses[0] != alone.losses[1]);
  for (const int ranks : {2, 4, 8, 16}) {
    CAPTURE(ranks);
    const Trained trained = train(ranks, dtype, Reproducible::pairs);
    CHECK(trained.losses == alone.losses);
    for (std::size_t i = 0; i < alone.weights.size(); ++i) {
      CAPTURE(i);
      CHECK(trained.weights[i] == alone.weights[i]);
    }
  }
  CHECK(train(4, dtype, Reproducible::run).weights != train(1, dtype, Reproducible::run).weights);
}

TEST_CASE("on the local backend too", "[tp][blocks]") {
  const Trained alone = train(1, DType::f32, Reproducible::pairs);
  const Trained trained = train(8, DType::f32, Reproducible::pairs, "local");
  CHECK(trained.losses == alone.losses);
  CHECK(trained.weights == alone.weights);
}

// A table that is larger than what a kernel holds of it at a time.
TEST_CASE("the gradient of a cut table has the same bits on any number of ranks", "[tp][blocks]") {
  const auto gradient_on = [](int ranks) {
    TensorParallelWorld world(ranks, {.backend = "ahbm",
                                      .parallel = {.tensor_model_parallel_size = ranks},
                                      .runtime = {.reproducible = Reproducible::pairs}});
    std::vector<Floats> parts(static_cast<std::size_t>(ranks));
    world.spawn([&](int rank) {
      const tp::VocabParallelEmbedding embedding(
          world.torch, {.num_embeddings = 4096, .embedding_dim = 64, .dtype = DType::f32});
      constexpr std::int64_t kCount = 2048;
      const random::Draw drawn(1, 2);
      std::vector<std::int64_t> words;
      Floats dy;
      for (std::int64_t i = 0; i < kCount; ++i) words.push_back(i * i % 61 * 67);
      for (std::int64_t i = 0; i < kCount * 64; ++i) dy.push_back(drawn.normal(i));
      embedding.forward(world.torch.tensor(words, {1, kCount}, kOnOnePe))
          .backward(world.torch.tensor(dy, {1, kCount, 64}, kOnOnePe));
      parts[static_cast<std::size_t>(rank)] = embedding.weight.grad().to_vector();
    });
    return joined(parts, {4096, 64}, 0);
  };
  const Floats alone = gradient_on(1);
  for (const int ranks : {2, 16}) CHECK(gradient_on(ranks) == alone);
}

TEST_CASE("layers whose blocks ranks cannot share are refused", "[tp][blocks][errors]") {
  const auto refused = [](int ranks, const auto& make) {
    TensorParallelWorld world(ranks, {.parallel = {.tensor_model_parallel_size = ranks},
                                      .runtime = {.reproducible = Reproducible::pairs}});
    return error_of<SpawnException>([&] { world.spawn([&](int) { make(world.torch); }); });
  };
  const auto column = [](RuntimeContext& torch) {
    const tp::ColumnParallelLinear layer(torch, {.in_features = 4, .out_features = 24});
  };
  CHECK_THAT(refused(2, column), Contains("KB-T001") &&
                                     Contains("column_parallel_linear: 24 over 2 ranks") &&
                                     Contains("multiples of 16"));
  CHECK_THAT(refused(3,
                     [](RuntimeContext& torch) {
                       const tp::RowParallelLinear layer(torch,
                                                         {.in_features = 48, .out_features = 4});
                     }),
             Contains("row_parallel_linear: 48 over 3 ranks"));
  CHECK_THAT(refused(2,
                     [](RuntimeContext& torch) {
                       const tp::ColumnParallelLinear layer(
                           torch,
                           {.in_features = 4, .out_features = 32, .sequence_parallel = true});
                     }),
             Contains("KB-T006") && Contains("sums over its own tokens"));
  CHECK_THAT(refused(2,
                     [](RuntimeContext& torch) {
                       const tp::ColumnParallelLinear layer(
                           torch, {.in_features = 4, .out_features = 48, .stride = 3});
                     }),
             Contains("KB-T006") && Contains("stride 3 and a weight on one PE"));
  CHECK_THAT(refused(16,
                     [](RuntimeContext& torch) {
                       const tp::RowParallelLinear layer(
                           torch, {.in_features = 32, .out_features = 4, .num_pes = 2});
                     }),
             Contains("KB-T006") && Contains("stride 1 and a weight on several PEs"));
  CHECK_THAT(
      refused(2,
              [](RuntimeContext& torch) {
                const tp::VocabParallelEmbedding layer(
                    torch,
                    {.num_embeddings = 32, .embedding_dim = 4, .reduce_scatter_embeddings = true});
              }),
      Contains("KB-T006") && Contains("sums over its own tokens"));
}

}  // namespace
}  // namespace kernbench::test::blocks_test
