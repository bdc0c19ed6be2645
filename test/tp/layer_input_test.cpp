// Layers whose type was not given take what tensors are by default; and layers are modules.

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/nn/layers.h"
#include "runtime/ops/placement.h"
#include "runtime/optim/optimizer.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"

namespace kernbench::test::layer_input_test {
namespace {

constexpr int kRanks = 2;
const WorldOptions kWorld{.parallel = {.tensor_model_parallel_size = kRanks}, .cubes = 2};
const Matrix kA = Matrix::of_integers(6, 8, 2, 1);
const Matrix kB = Matrix::of_integers(8, 6, 2, 2);
const Matrix kX = Matrix::of_integers(5, 6, 3, 3);

// Where an input may lie: on all PEs, its rows on some of them, on one.
const std::vector<DPPolicy> kPolicies = {{},
                                         {.cube = Shard::row_wise},
                                         {.pe = Shard::row_wise},
                                         {.cube = Shard::row_wise, .pe = Shard::row_wise},
                                         {.pe = Shard::row_wise, .num_cubes = 1},
                                         DPPolicy::on_one_pe()};

void set(Tensor parameter, const Matrix& values) {
  parameter.copy_(RuntimeContext::tensor(values.elements, parameter.shape()));
}

TEST_CASE("a layer whose type was not given takes inputs of all types with whole rows",
          "[tp][layers]") {
  TensorParallelWorld world(kRanks, kWorld);
  world.spawn([&](int rank) {
    tp::ColumnParallelLinear up(world.torch, 6, 8);
    tp::RowParallelLinear down(world.torch, 8, 6);
    set(up.weight, kA.columns_of(rank, kRanks));
    set(down.weight, kB.rows_of(rank, kRanks));
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      for (const DPPolicy& dp : kPolicies) {
        const Tensor x = world.leaf(kX, {.dtype = dtype, .dp = dp});
        const Tensor y = down.forward(up.forward(x));
        CHECK(y.dtype() == DType::f16);
        CHECK(y.to_vector() == (kX * kA * kB).elements);
        y.backward(world.torch.ones_like(y));
        CHECK(x.grad().dtype() == dtype);
        CHECK(ops::placement_of(x.grad()) == ops::placement_of(x));
        const Matrix ones(5, 6, Floats(30, 1));
        CHECK(x.grad().to_vector() == (ones * kB.transposed() * kA.transposed()).elements);
      }
    }
  });
}

TEST_CASE("a layer takes ones, as a user types them", "[tp][layers]") {
  TensorParallelWorld world(kRanks, kWorld);
  world.spawn([&](int) {
    const tp::ColumnParallelLinear layer(world.torch, 64, 64);
    CHECK(layer.forward(world.torch.ones({8, 64})).shape() == Shape{8, 32});
    const tp::VocabParallelEmbedding words(world.torch, {.num_embeddings = 8, .embedding_dim = 4});
    CHECK(words.forward(world.torch.zeros({2, 3})).shape() == Shape{2, 3, 4});
  });
}

TEST_CASE("layers between compiled operators, on checkpoints and views too, compute as without",
          "[tp][layers][compile]") {
  const bool is_sequence_parallel = GENERATE(false, true);
  TensorParallelWorld world(kRanks, kWorld);
  world.spawn([&](int rank) {
    tp::ColumnParallelLinear up(world.torch, {.in_features = 6,
                                              .out_features = 8,
                                              .sequence_parallel = is_sequence_parallel,
                                              .dtype = DType::f16});
    tp::RowParallelLinear down(world.torch, {.in_features = 8,
                                             .out_features = 6,
                                             .sequence_parallel = is_sequence_parallel,
                                             .dtype = DType::f16});
    set(up.weight, kA.columns_of(rank, kRanks));
    set(down.weight, kB.rows_of(rank, kRanks));
    const auto mlp = [&](const Tensor& x) {
      const Tensor h = up.forward(x * 0.5 + 1);
      return down.forward(nn::functional::silu(h) * sigmoid(h)) - x;
    };
    const auto run = [&](const std::function<Tensor(const Tensor&)>& of) {
      const Matrix rows = Matrix::of_integers(8, 6, 3, 3);
      const Tensor leaf = world.leaf(rows, {.dtype = DType::f16, .dp = kPolicies.back()});
      const Tensor y = of(leaf.slice(0, 0, 8, 2));
      y.backward(world.torch.ones_like(y));
      std::vector<Floats> all{y.to_vector(), leaf.grad().to_vector()};
      for (tp::Parameter* parameter : {&up.weight, &down.weight}) {
        all.push_back(parameter->grad().to_vector());
        parameter->zero_grad();
      }
      return all;
    };
    const auto expected = run(mlp);
    CHECK(run(compile(mlp)) == expected);
    const auto recomputed = [&](const Tensor& x) {
      return nn::utils::checkpoint([&](const std::vector<Tensor>& in) { return mlp(in[0]); }, {x});
    };
    CHECK(run(recomputed) == expected);
    CHECK(run(compile(recomputed)) == expected);
  });
}

TEST_CASE("a layer whose type was given refuses another one, and other PEs", "[tp][layers]") {
  TensorParallelWorld world(kRanks, kWorld);
  world.spawn([&](int) {
    const tp::ColumnParallelLinear layer(
        world.torch, {.in_features = 4, .out_features = 4, .dtype = DType::f16});
    const TensorOptions one{.dtype = DType::f32, .dp = DPPolicy::on_one_pe()};
    CHECK_THROWS_MATCHES(layer.forward(world.torch.ones({2, 4}, one)), DeviceError,
                         Says("KB-F002"));
    CHECK_THROWS_MATCHES(layer.forward(world.torch.ones({2, 4}, {.dtype = DType::f16})),
                         DeviceError, Says("KB-F003"));
    const tp::ColumnParallelLinear any(world.torch, 4, 4);
    CHECK_THROWS_MATCHES(any.forward(world.torch.ones({2, 4}, {.dp = {.pe = Shard::column_wise}})),
                         DeviceError, Says("KB-F003"));
  });
}

struct MlpImpl : nn::Module {
  explicit MlpImpl(RuntimeContext& torch)
      : up(torch, 6, 8), down(torch, 8, 6), norm(register_module("norm", nn::LayerNorm(torch, 6))) {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) const { return down.forward(relu(up.forward(norm(x)))); }

  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
  nn::LayerNorm norm;
};
KERNBENCH_MODULE(Mlp);

TEST_CASE("layers of tp are modules", "[tp][layers]") {
  TensorParallelWorld world(kRanks, kWorld);
  world.spawn([&](int) {
    Mlp mlp(world.torch);
    CHECK(mlp->named_parameters().keys() == std::vector<std::string>{"norm.weight", "norm.bias",
                                                                     "up.weight", "up.bias",
                                                                     "down.weight", "down.bias"});
    mlp->eval();
    CHECK(!mlp->up.is_training());
    const Mlp other(world.torch);
    other->load_state_dict(mlp->state_dict());
    CHECK(other->down.weight.to_vector() == mlp->down.weight.to_vector());
    const Tensor x = world.torch.rand({3, 6});
    const Tensor before = mlp(x).detach();
    optim::SGD sgd(other->up.nn::Module::parameters(), 0.5);
    other(x).to(DType::f32).square().sum().backward();
    sgd.step();
    CHECK(other->up.weight.to_vector() != mlp->up.weight.to_vector());
    mlp->to(DType::f32);
    CHECK(mlp->up.weight.dtype() == DType::f32);
    CHECK(mlp->up.parameters()[0].dtype() == DType::f32);  // Megatron's handle to the same
    const Floats rounded = mlp(x).to_vector();
    const Floats is = before.to_vector();
    for (std::size_t i = 0; i < is.size(); ++i) CHECK(std::abs(rounded[i] - is[i]) <= 0x1p-8F);
  });
}

}  // namespace
}  // namespace kernbench::test::layer_input_test
