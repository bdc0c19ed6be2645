// Layers whose weights lie once over all PEs of a device (DPPolicy::shared()), and whose tokens
// PEs share row by row: bit-equal with one dense computation, on any number of ranks.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/ops/placement.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"
#include "tp/parameter.h"

namespace kernbench::test::whole_device_test {
namespace {

constexpr std::int64_t kIn = 8;
constexpr std::int64_t kHidden = 24;
constexpr std::int64_t kOut = 6;

const DPPolicy kShared = DPPolicy::shared();
const DPPolicy kRows = {Shard::row_wise, Shard::row_wise};

// A device of 2 x 2 PEs, or the 128 of default.yaml.
Topology topology_of(int ranks, bool is_default) {
  if (!is_default) return round_topology(SipTopology::ring_1d, ranks, 1, 2, 1);
  return with_sips(Topology::load(KERNBENCH_ROOT "/topologies/default.yaml"), ranks);
}

struct Case {
  std::string backend;
  int ranks = 1;
  bool sequence_parallel = false;
  bool overlap = true;
  bool is_default = false;
};

// y = relu(x w1 + b1) w2 + b2 and its gradients, in whole numbers that f32 has exactly.
struct DenseMlp {
  explicit DenseMlp(std::int64_t tokens)
      : x(Matrix::of_integers(tokens, kIn, 3, 1)), dy(Matrix::of_integers(tokens, kOut, 2, 6)) {}

  Matrix x;
  Matrix dy;
  Matrix w1 = Matrix::of_integers(kIn, kHidden, 1, 2);
  Matrix b1 = Matrix::of_integers(1, kHidden, 2, 3);
  Matrix w2 = Matrix::of_integers(kHidden, kOut, 1, 4);
  Matrix b2 = Matrix::of_integers(1, kOut, 3, 5);

  Matrix before = (x * w1).plus_row(b1);
  Matrix h = before.zipped(before, [](float a, float) { return a > 0 ? a : 0; });
  Matrix y = (h * w2).plus_row(b2);
  Matrix dh = (dy * w2.transposed()).zipped(before, [](float d, float a) { return a > 0 ? d : 0; });
};

Tensor host(const Matrix& m, const Tensor& like) {
  return RuntimeContext::tensor(m.elements, like.shape());
}

void check_mlp(TensorParallelWorld& world, const Case& of, int rank) {
  const int ranks = of.ranks;
  const DenseMlp dense(of.is_default ? 192 : 24);
  const TensorOptions rows{.dp = kRows};
  const auto part = [&](const Matrix& m) {
    return of.sequence_parallel ? m.rows_of(rank, ranks) : m;
  };
  tp::ColumnParallelLinear fc1(world.torch, {.in_features = kIn,
                                             .out_features = kHidden,
                                             .sequence_parallel = of.sequence_parallel,
                                             .async_tensor_model_parallel_allreduce = of.overlap,
                                             .dtype = DType::f32,
                                             .dp = kShared});
  tp::RowParallelLinear fc2(world.torch, {.in_features = kHidden,
                                          .out_features = kOut,
                                          .sequence_parallel = of.sequence_parallel,
                                          .dtype = DType::f32,
                                          .dp = kShared});
  fc1.weight.copy_(host(dense.w1.columns_of(rank, ranks), fc1.weight));
  fc1.bias.copy_(host(dense.b1.columns_of(rank, ranks), fc1.bias));
  fc2.weight.copy_(host(dense.w2.rows_of(rank, ranks), fc2.weight));
  fc2.bias.copy_(host(dense.b2, fc2.bias));

  const Tensor x = world.leaf(part(dense.x), rows);
  const Tensor y = fc2(relu(fc1(x)));
  CHECK(ops::placement_of(y) == ops::placement_of(x));
  CHECK(y.to_vector() == part(dense.y).elements);
  y.backward(world.tensor(part(dense.dy), rows));
  tp::allreduce_sequence_parallel_gradients(world.torch, fc2.parameters());
  CHECK(x.grad().to_vector() == part(dense.dh * dense.w1.transposed()).elements);
  CHECK(ops::placement_of(fc1.weight.grad()) == ops::placement_of(fc1.weight));
  CHECK(ops::placement_of(fc2.weight.grad()) == ops::placement_of(fc2.weight));
  CHECK(fc1.weight.grad().to_vector() ==
        (dense.x.transposed() * dense.dh).columns_of(rank, ranks).elements);
  CHECK(fc1.bias.grad().to_vector() == dense.dh.sum_of_rows().columns_of(rank, ranks).elements);
  CHECK(fc2.weight.grad().to_vector() ==
        (dense.h.transposed() * dense.dy).rows_of(rank, ranks).elements);
  CHECK(fc2.bias.grad().to_vector() == dense.dy.sum_of_rows().elements);
}

void check_case(const Case& of) {
  CAPTURE(of.backend, of.ranks, of.sequence_parallel, of.overlap, of.is_default);
  TensorParallelWorld world(
      topology_of(of.ranks, of.is_default),
      {.backend = of.backend, .parallel = {.tensor_model_parallel_size = of.ranks}});
  world.spawn([&](int rank) { check_mlp(world, of, rank); });
}

TEST_CASE("column, relu, row with shared weights are the dense computation",
          "[tp][layers][exact]") {
  for (const char* backend : {"local", "ahbm"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        check_case({backend, ranks, sequence_parallel, true});
        check_case({backend, ranks, sequence_parallel, false});
      }
    }
  }
}

TEST_CASE("column, relu, row on all 128 PEs of each SIP of default.yaml", "[tp][layers][exact]") {
  for (const int ranks : {2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      check_case({"ahbm", ranks, sequence_parallel, true, true});
    }
  }
}

// A language model of one layer over packed tokens: embedding, column, row, head, loss.
struct WordModel {
  static constexpr std::int64_t kWords = 12;
  static constexpr std::int64_t kTokens = 24;

  Matrix table = Matrix::of_integers(kWords, kIn, 2, 1);
  Matrix up = Matrix::of_integers(kIn, kHidden, 1, 2);
  Matrix down = Matrix::of_integers(kHidden, kIn, 1, 3);
  // Logits within 8 of each other, whose softmax has more than one word.
  Matrix head = Matrix::of_integers(kIn, kWords, 1, 4);
  Floats ids = Matrix::of_integers(1, kTokens, 5, 5).elements;  // -5 to 5, plus 5
};

struct WordStep {
  Floats y;  // of all ranks with sequence_parallel
  Floats loss;
  std::vector<Floats> gradients;  // of this rank's parts
};

WordStep run_word_model(TensorParallelWorld& world, bool sequence_parallel, int rank) {
  RuntimeContext& torch = world.torch;
  const WordModel model;
  const int ranks = world.size;
  tp::VocabParallelEmbedding embedding(torch, {.num_embeddings = WordModel::kWords,
                                               .embedding_dim = kIn,
                                               .reduce_scatter_embeddings = sequence_parallel,
                                               .dtype = DType::f32,
                                               .dp = kShared});
  const auto column = [&](std::int64_t in, std::int64_t out) {
    return tp::ColumnParallelLinearOptions{.in_features = in,
                                           .out_features = out,
                                           .bias = false,
                                           .sequence_parallel = sequence_parallel,
                                           .dtype = DType::f32,
                                           .dp = kShared};
  };
  tp::ColumnParallelLinear up(torch, column(kIn, kHidden));
  tp::RowParallelLinear down(torch, {.in_features = kHidden,
                                     .out_features = kIn,
                                     .bias = false,
                                     .sequence_parallel = sequence_parallel,
                                     .dtype = DType::f32,
                                     .dp = kShared});
  tp::ColumnParallelLinear head(torch, column(kIn, WordModel::kWords));
  embedding.weight.copy_(host(model.table.rows_of(rank, ranks), embedding.weight));
  up.weight.copy_(host(model.up.columns_of(rank, ranks), up.weight));
  down.weight.copy_(host(model.down.rows_of(rank, ranks), down.weight));
  head.weight.copy_(host(model.head.columns_of(rank, ranks), head.weight));
  Floats words = model.ids;
  for (float& word : words) word += 5;
  const Tensor ids = world.tensor(words, {WordModel::kTokens}, {.dp = kRows});
  const Tensor y = down(up(embedding(ids))) * 0.0625;
  const Tensor loss = tp::vocab_parallel_cross_entropy(torch, head(y), ids, {});
  loss.backward(world.tensor(Floats(words.size(), 1), loss.shape(), {.dp = kRows}));
  return {y.to_vector(),
          loss.to_vector(),
          {embedding.weight.grad().to_vector(), up.weight.grad().to_vector(),
           down.weight.grad().to_vector(), head.weight.grad().to_vector()}};
}

std::vector<WordStep> run_word_model(const std::string& backend, int ranks,
                                     bool sequence_parallel) {
  TensorParallelWorld world(
      topology_of(ranks, false),
      {.backend = backend, .parallel = {.tensor_model_parallel_size = ranks}});
  std::vector<WordStep> steps(static_cast<std::size_t>(ranks));
  world.spawn([&](int rank) {
    steps[static_cast<std::size_t>(rank)] = run_word_model(world, sequence_parallel, rank);
  });
  return steps;
}

// The largest difference of two vectors, relative to the larger one's largest element.
float difference(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  float most = 0;
  float size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    size = std::max({size, std::abs(a[i]), std::abs(b[i])});
  }
  return size == 0 ? 0 : most / size;
}

// The steps of ranks are those of one: what precedes the loss bit for bit, and the loss, whose
// exponentials have no exact sums, within the rounding of sums of 24 tokens and 24 features, each
// of which adds 2^-24 of the largest at most.
void check_steps(const std::vector<WordStep>& found, const WordStep& whole,
                 bool sequence_parallel) {
  const float bound = std::ldexp(1.0F, -24) * (WordModel::kTokens + 2 * kHidden);
  const int ranks = static_cast<int>(found.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const WordStep& step = found[static_cast<std::size_t>(rank)];
    const Matrix y(WordModel::kTokens, kIn, whole.y);
    CHECK(step.y == (sequence_parallel ? y.rows_of(rank, ranks).elements : whole.y));
    CHECK(difference(step.loss, whole.loss) <= bound);
    const auto close = [&](std::size_t i, const Matrix& expected) {
      CHECK(difference(step.gradients[i], expected.elements) <= bound);
    };
    close(0, Matrix(WordModel::kWords, kIn, whole.gradients[0]).rows_of(rank, ranks));
    close(1, Matrix(kIn, kHidden, whole.gradients[1]).columns_of(rank, ranks));
    close(2, Matrix(kHidden, kIn, whole.gradients[2]).rows_of(rank, ranks));
    close(3, Matrix(kIn, WordModel::kWords, whole.gradients[3]).columns_of(rank, ranks));
  }
}

TEST_CASE("embedding, layers, head and loss of ranks with shared weights are those of one",
          "[tp][layers][embedding][exact]") {
  const WordStep whole = run_word_model("local", 1, false).front();
  for (const char* backend : {"local", "ahbm"}) {
    for (const int ranks : {2, 3, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        CAPTURE(backend, ranks, sequence_parallel);
        check_steps(run_word_model(backend, ranks, sequence_parallel), whole, sequence_parallel);
      }
    }
  }
}

TEST_CASE("embeddings of packed tokens are exact, and so are their gradients",
          "[tp][embedding][exact]") {
  const bool sequence_parallel = GENERATE(false, true);
  const int ranks = GENERATE(1, 2, 4);
  const WordModel model;
  const Matrix dy = Matrix::of_integers(WordModel::kTokens, kIn, 3, 7);
  Matrix rows(WordModel::kTokens, kIn);
  Matrix sums(WordModel::kWords, kIn);
  Floats words = model.ids;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] += 5;
    for (std::int64_t j = 0; j < kIn; ++j) {
      const auto token = static_cast<std::int64_t>(i);
      rows.at(token, j) = model.table.at(static_cast<std::int64_t>(words[i]), j);
      sums.at(static_cast<std::int64_t>(words[i]), j) += dy.at(token, j);
    }
  }
  TensorParallelWorld world(topology_of(ranks, false),
                            {.backend = "ahbm", .parallel = {.tensor_model_parallel_size = ranks}});
  world.spawn([&](int rank) {
    const auto part = [&](const Matrix& m) {
      return sequence_parallel ? m.rows_of(rank, ranks) : m;
    };
    tp::VocabParallelEmbedding layer(world.torch, {.num_embeddings = WordModel::kWords,
                                                   .embedding_dim = kIn,
                                                   .reduce_scatter_embeddings = sequence_parallel,
                                                   .dtype = DType::f32,
                                                   .dp = kShared});
    layer.weight.copy_(host(model.table.rows_of(rank, ranks), layer.weight));
    const Tensor y = layer(world.tensor(words, {WordModel::kTokens}, {.dp = kRows}));
    CHECK(y.to_vector() == part(rows).elements);
    y.backward(world.tensor(part(dy), {.dp = kRows}));
    CHECK(layer.weight.grad().to_vector() == sums.rows_of(rank, ranks).elements);
  });
}

TEST_CASE("the whole output and the whole input of layers with shared weights",
          "[tp][layers][exact]") {
  const int ranks = GENERATE(1, 2, 4);
  TensorParallelWorld world(topology_of(ranks, false),
                            {.backend = "ahbm", .parallel = {.tensor_model_parallel_size = ranks}});
  const DenseMlp dense(24);
  const Matrix h = dense.x * dense.w1;
  const Matrix dh = dense.dy * dense.w2.transposed();
  world.spawn([&](int rank) {
    tp::ColumnParallelLinear fc1(world.torch, {.in_features = kIn,
                                               .out_features = kHidden,
                                               .bias = false,
                                               .gather_output = true,
                                               .dtype = DType::f32,
                                               .dp = kShared});
    tp::RowParallelLinear fc2(world.torch, {.in_features = kHidden,
                                            .out_features = kOut,
                                            .bias = false,
                                            .input_is_parallel = false,
                                            .dtype = DType::f32,
                                            .dp = kShared});
    fc1.weight.copy_(host(dense.w1.columns_of(rank, ranks), fc1.weight));
    fc2.weight.copy_(host(dense.w2.rows_of(rank, ranks), fc2.weight));
    const Tensor x = world.leaf(dense.x, {.dp = kRows});
    const Tensor gathered = fc1(x);
    CHECK(gathered.to_vector() == h.elements);
    const Tensor y = fc2(gathered);
    CHECK(y.to_vector() == (h * dense.w2).elements);
    y.backward(world.tensor(dense.dy, {.dp = kRows}));
    CHECK(x.grad().to_vector() == (dh * dense.w1.transposed()).elements);
    CHECK(fc1.weight.grad().to_vector() ==
          (dense.x.transposed() * dh).columns_of(rank, ranks).elements);
    CHECK(fc2.weight.grad().to_vector() ==
          (h.transposed() * dense.dy).rows_of(rank, ranks).elements);
  });
}

TEST_CASE("a run without values takes the time of one with values", "[tp][layers]") {
  const bool sequence_parallel = GENERATE(false, true);
  const auto time = [&](bool data) {
    TensorParallelWorld world(topology_of(2, false), {.backend = "ahbm",
                                                      .parallel = {.tensor_model_parallel_size = 2},
                                                      .runtime = {.data = data}});
    world.spawn([&](int) {
      RuntimeContext& torch = world.torch;
      tp::ColumnParallelLinear fc1(torch, {.in_features = kIn,
                                           .out_features = kHidden,
                                           .sequence_parallel = sequence_parallel,
                                           .dtype = DType::f32,
                                           .dp = kShared});
      tp::RowParallelLinear fc2(torch, {.in_features = kHidden,
                                        .out_features = kOut,
                                        .sequence_parallel = sequence_parallel,
                                        .dtype = DType::f32,
                                        .dp = kShared});
      const std::int64_t tokens = sequence_parallel ? 12 : 24;
      const Tensor x = torch.zeros({tokens, kIn}, {.dp = kRows}).requires_grad_();
      const Tensor y = fc2(relu(fc1(x)));
      y.backward(torch.zeros_like(y));
    });
    return world.torch.engine().now();
  };
  const Time with_values = time(true);
  CHECK(with_values > Time{0});
  CHECK(time(false) == with_values);
}

TEST_CASE("a layer with a placement and with PEs says so", "[tp][layers]") {
  TensorParallelWorld world(1, {});
  world.spawn([&](int) {
    CHECK_THROWS_MATCHES(
        tp::ColumnParallelLinear(
            world.torch, {.in_features = kIn, .out_features = kOut, .num_pes = 2, .dp = kShared}),
        CollectiveError, Says("KB-T006", "column_parallel_linear", "num_pes"));
  });
}

}  // namespace
}  // namespace kernbench::test::whole_device_test
