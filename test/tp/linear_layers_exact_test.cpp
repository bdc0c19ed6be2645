// Column-parallel, activation, row-parallel with trainable weights, forward and backward, on 1 to 6
// ranks and on several PEs of each: bit-equal with one dense computation.

#include <catch2/catch.hpp>

#include "runtime/functional/functional.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"

namespace kernbench::test::linear_layers_exact_test {
namespace {

constexpr std::int64_t kIn = 8;
constexpr std::int64_t kOut = 6;

// The sizes of the whole layers, which ranks share.
struct Sizes {
  std::int64_t tokens = 12;
  std::int64_t hidden = 24;
};

// y = relu(x w1 + b1) w2 + b2 and its gradients, in whole numbers: with the default sizes below
// 2048, which f16 has exactly, and below 2^24 with any that a test uses.
struct DenseMlp {
  explicit DenseMlp(const Sizes& given) : sizes(given) {}

  Sizes sizes;
  Matrix x = Matrix::of_integers(sizes.tokens, kIn, 3, 1);
  Matrix w1 = Matrix::of_integers(kIn, sizes.hidden, 1, 2);
  Matrix b1 = Matrix::of_integers(1, sizes.hidden, 2, 3);
  Matrix w2 = Matrix::of_integers(sizes.hidden, kOut, 1, 4);
  Matrix b2 = Matrix::of_integers(1, kOut, 3, 5);
  Matrix dy = Matrix::of_integers(sizes.tokens, kOut, 2, 6);

  Matrix before = (x * w1).plus_row(b1);
  Matrix h = before.zipped(before, [](float a, float) { return a > 0 ? a : 0; });
  Matrix y = (h * w2).plus_row(b2);

  Matrix db2 = dy.sum_of_rows();
  Matrix dw2 = h.transposed() * dy;
  Matrix dh = (dy * w2.transposed()).zipped(before, [](float d, float a) { return a > 0 ? d : 0; });
  Matrix db1 = dh.sum_of_rows();
  Matrix dw1 = x.transposed() * dh;
  Matrix dx = dh * w1.transposed();
};

struct Case {
  std::string backend;
  int ranks;
  int cubes;
  int pes;
  bool sequence_parallel;
  bool overlap;
  DType dtype;
  Sizes sizes = {};
};

void check_rank(TensorParallelWorld& world, const Case& of, int rank) {
  const DenseMlp dense(of.sizes);
  const int ranks = of.ranks;
  const DPPolicy everywhere = tp::policy_over_pes(Shard::replicate, of.cubes, of.pes);
  const TensorOptions whole{.dtype = of.dtype, .dp = everywhere};
  const auto part = [&](const Matrix& m) {
    return of.sequence_parallel ? m.rows_of(rank, ranks) : m;
  };
  tp::ColumnParallelLinear fc1(world.torch, {.in_features = kIn,
                                             .out_features = of.sizes.hidden,
                                             .sequence_parallel = of.sequence_parallel,
                                             .async_tensor_model_parallel_allreduce = of.overlap,
                                             .dtype = of.dtype,
                                             .num_cubes = of.cubes,
                                             .num_pes = of.pes});
  tp::RowParallelLinear fc2(world.torch, {.in_features = of.sizes.hidden,
                                          .out_features = kOut,
                                          .sequence_parallel = of.sequence_parallel,
                                          .dtype = of.dtype,
                                          .num_cubes = of.cubes,
                                          .num_pes = of.pes});
  const auto host = [](const Matrix& m, const Tensor& like) {
    return RuntimeContext::tensor(m.elements, like.shape());
  };
  fc1.weight.copy_(host(dense.w1.columns_of(rank, ranks), fc1.weight));
  fc1.bias.copy_(host(dense.b1.columns_of(rank, ranks), fc1.bias));
  fc2.weight.copy_(host(dense.w2.rows_of(rank, ranks), fc2.weight));
  fc2.bias.copy_(host(dense.b2, fc2.bias));

  const Tensor x = world.leaf(part(dense.x), whole);
  const Tensor y = fc2.forward(relu(fc1.forward(x)));
  CHECK(y.to_vector() == part(dense.y).elements);
  y.backward(world.tensor(part(dense.dy), whole));
  tp::allreduce_sequence_parallel_gradients(world.torch, fc2.parameters());
  CHECK(x.grad().to_vector() == part(dense.dx).elements);
  CHECK(fc1.weight.grad().to_vector() == dense.dw1.columns_of(rank, ranks).elements);
  CHECK(fc1.bias.grad().to_vector() == dense.db1.columns_of(rank, ranks).elements);
  CHECK(fc2.weight.grad().to_vector() == dense.dw2.rows_of(rank, ranks).elements);
  CHECK(fc2.bias.grad().to_vector() == dense.db2.elements);
}

void check_case(const Case& of) {
  CAPTURE(of.backend, of.ranks, of.cubes, of.pes, of.sequence_parallel, of.overlap, of.dtype);
  TensorParallelWorld world(of.ranks, {.backend = of.backend,
                                       .parallel = {.tensor_model_parallel_size = of.ranks},
                                       .cubes = of.cubes});
  world.spawn([&](int rank) { check_rank(world, of, rank); });
}

TEST_CASE("column, relu, row: forward and backward are those of the dense computation",
          "[tp][layers][exact]") {
  for (const int ranks : {1, 2, 3, 4, 6}) {
    for (const bool sequence_parallel : {false, true}) {
      check_case({"local", ranks, 1, 1, sequence_parallel, true, DType::f32});
      check_case({"local", ranks, 1, 1, sequence_parallel, true, DType::f16});
      check_case({"ahbm", ranks, 1, 1, sequence_parallel, true, DType::f16});
      check_case({"ahbm", ranks, 1, 1, sequence_parallel, false, DType::f16});
    }
  }
}

TEST_CASE("column, relu, row on several PEs of each device", "[tp][layers][exact]") {
  for (const char* backend : {"local", "ahbm"}) {
    for (const int ranks : {1, 2, 3, 4, 6}) {
      for (const bool sequence_parallel : {false, true}) {
        check_case({backend, ranks, 1, 2, sequence_parallel, true, DType::f16});
        check_case({backend, ranks, 3, 2, sequence_parallel, true, DType::f16});
      }
    }
  }
}

TEST_CASE("column, relu, row on 16 and on 64 ranks", "[tp][layers][exact][exhaustive]") {
  for (const char* backend : {"local", "ahbm"}) {
    for (const int ranks : {16, 64}) {
      for (const bool sequence_parallel : {false, true}) {
        check_case({backend, ranks, 1, 1, sequence_parallel, true, DType::f32, {64, 128}});
      }
    }
  }
}

}  // namespace
}  // namespace kernbench::test::linear_layers_exact_test
