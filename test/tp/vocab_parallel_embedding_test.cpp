// A table of words that is cut over ranks.

#include <catch2/catch.hpp>

#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"
#include "tp/random.h"

namespace kernbench::test::vocab_parallel_embedding_test {
namespace {

using tp::VocabParallelEmbedding;

constexpr std::int64_t kWords = 12;
constexpr std::int64_t kWidth = 5;
const Matrix kTable = Matrix::of_integers(kWords, kWidth, 9, 1);
const Floats kIds = {0, 11, 5, 6, 3, 3, 8, 1};  // [2, 4]

// Rows of the table, in the order of the ids.
Matrix looked_up(const Floats& ids) {
  Matrix rows(static_cast<std::int64_t>(ids.size()), kWidth);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Matrix row = kTable.rows_from(static_cast<std::int64_t>(ids[i]), 1);
    for (std::int64_t j = 0; j < kWidth; ++j) {
      rows.at(static_cast<std::int64_t>(i), j) = row.at(0, j);
    }
  }
  return rows;
}

// The table's gradient: each word gets the sum of its rows' gradients.
Matrix added_up(const Floats& ids, const Matrix& dy) {
  Matrix sums(kWords, kWidth);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (std::int64_t j = 0; j < kWidth; ++j) {
      sums.at(static_cast<std::int64_t>(ids[i]), j) += dy.at(static_cast<std::int64_t>(i), j);
    }
  }
  return sums;
}

TEST_CASE("every rank gets the rows of the whole table, and its words their gradients",
          "[tp][embedding]") {
  const Matrix dy = Matrix::of_integers(8, kWidth, 3, 2);
  for (const char* backend : {"local", "ahbm"}) {
    for (const int ranks : {1, 2, 3, 4, 6}) {
      for (const int pes : {1, 2}) {
        CAPTURE(backend, ranks, pes);
        TensorParallelWorld world(
            ranks, {.backend = backend, .parallel = {.tensor_model_parallel_size = ranks}});
        world.spawn([&](int rank) {
          VocabParallelEmbedding layer(
              world.torch, {.num_embeddings = kWords, .embedding_dim = kWidth, .num_pes = pes});
          CHECK(layer.weight.shape() == Shape{kWords / ranks, kWidth});
          layer.weight.copy_(
              RuntimeContext::tensor(kTable.rows_of(rank, ranks).elements, layer.weight.shape()));
          const DPPolicy dp = tp::policy_over_pes(Shard::replicate, 1, pes);
          const Tensor rows = layer.forward(world.tensor(kIds, {2, 4}, {.dp = dp}));
          CHECK(rows.shape() == Shape{2, 4, kWidth});
          CHECK(rows.to_vector() == looked_up(kIds).elements);
          rows.backward(world.tensor(dy.elements, {2, 4, kWidth}, {.dtype = DType::f16, .dp = dp}));
          CHECK(layer.weight.grad().to_vector() ==
                added_up(kIds, dy).rows_of(rank, ranks).elements);
        });
      }
    }
  }
}

TEST_CASE("reduce_scatter_embeddings: sequence first, a part of it on each rank, on one rank too",
          "[tp][embedding]") {
  const Floats transposed_ids = {0, 3, 11, 3, 5, 8, 6, 1};  // [4, 2]
  const Matrix dy = Matrix::of_integers(8, kWidth, 3, 2);
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    TensorParallelWorld world(ranks, {.parallel = {.tensor_model_parallel_size = ranks}});
    world.spawn([&](int rank) {
      VocabParallelEmbedding layer(world.torch, {.num_embeddings = kWords,
                                                 .embedding_dim = kWidth,
                                                 .reduce_scatter_embeddings = true,
                                                 .dtype = DType::f32});
      layer.weight.copy_(
          RuntimeContext::tensor(kTable.rows_of(rank, ranks).elements, layer.weight.shape()));
      const Tensor rows = layer.forward(world.tensor(kIds, {2, 4}));
      CHECK(rows.shape() == Shape{4 / ranks, 2, kWidth});
      CHECK(rows.to_vector() == looked_up(transposed_ids).rows_of(rank, ranks).elements);
      rows.backward(world.tensor(dy.rows_of(rank, ranks).elements, rows.shape()));
      CHECK(layer.weight.grad().to_vector() ==
            added_up(transposed_ids, dy).rows_of(rank, ranks).elements);
    });
  }
}

TEST_CASE("a table's first words do not depend on how many ranks share it", "[tp][embedding]") {
  Floats whole;
  for (const int ranks : {1, 4}) {
    TensorParallelWorld world(ranks, {.parallel = {.tensor_model_parallel_size = ranks}});
    world.spawn([&](int rank) {
      tp::model_parallel_manual_seed(world.torch, 7);
      const VocabParallelEmbedding layer(
          world.torch, {.num_embeddings = 16, .embedding_dim = 4, .dtype = DType::f32});
      const Floats part = layer.weight.to_vector();
      if (ranks == 1) {
        whole = part;
      } else {
        CHECK(part == Matrix(16, 4, whole).rows_of(rank, 4).elements);
      }
      CHECK(layer.weight.attributes == tp::TensorModelParallelAttributes{true, 0, 1});
      CHECK(layer.vocab_range() == tp::VocabRange{rank * 16 / ranks, (rank + 1) * 16 / ranks});
    });
  }
}

TEST_CASE("a vocabulary that ranks cannot share is refused", "[tp][embedding]") {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  CHECK_THROWS_MATCHES(
      VocabParallelEmbedding(world.torch, {.num_embeddings = 5, .embedding_dim = 4}),
      CollectiveError,
      Says("KB-T001", "5 is not divisible by 2", "num_embeddings", "'vocab_parallel_embedding'"));
}

}  // namespace
}  // namespace kernbench::test::vocab_parallel_embedding_test
