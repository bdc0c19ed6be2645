// ColumnParallelLinear and RowParallelLinear: shapes, options and what they are told.

#include <catch2/catch.hpp>

#include "runtime/distributed/group.h"
#include "runtime/functional/functional.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"

namespace kernbench::test::linear_layers_test {
namespace {

using tp::ColumnParallelLinear;
using tp::RowParallelLinear;

// All ranks in one tensor parallel group, on both backends.
void on_ranks(int ranks, const std::function<void(TensorParallelWorld&, int rank)>& body) {
  for (const char* backend : {"local", "ahbm"}) {
    CAPTURE(backend);
    TensorParallelWorld world(
        ranks, {.backend = backend, .parallel = {.tensor_model_parallel_size = ranks}});
    world.spawn([&](int rank) { body(world, rank); });
  }
}

void set(Tensor& parameter, const Matrix& values) {
  parameter.copy_(RuntimeContext::tensor(values.elements, parameter.shape()));
}

TEST_CASE("each rank has its columns, or its rows, of the weight", "[tp][layers]") {
  on_ranks(4, [](TensorParallelWorld& world, int) {
    const ColumnParallelLinear column(world.torch, {.in_features = 256, .out_features = 512});
    CHECK(column.weight.shape() == Shape{256, 128});
    CHECK(column.bias.shape() == Shape{128});
    CHECK(column.bias.to_vector() == Floats(128));
    CHECK(column.weight.requires_grad());
    CHECK(column.weight.dtype() == DType::f16);
    const RowParallelLinear row(world.torch, {.in_features = 512, .out_features = 256});
    CHECK(row.weight.shape() == Shape{128, 256});
    CHECK(row.bias.shape() == Shape{256});
    CHECK(row.bias.to_vector() == Floats(256));
    CHECK(row.parameters().size() == 2);
    CHECK(RowParallelLinear(world.torch, {.in_features = 4, .out_features = 4, .bias = false})
              .parameters()
              .size() == 1);
  });
}

TEST_CASE("a column-parallel layer adds its bias before the one rounding", "[tp][layers]") {
  on_ranks(2, [](TensorParallelWorld& world, int) {
    ColumnParallelLinear layer(world.torch, {.in_features = 2, .out_features = 4});
    layer.weight.copy_(RuntimeContext::tensor({2048, 60000, 1, 30000}, {2, 2}));
    layer.bias.copy_(RuntimeContext::tensor({1, -65504}, {2}));
    const Tensor x = world.torch.ones({1, 2}, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
    CHECK(layer.forward(x).to_vector() == Floats{2050, 24496});  // not 2048 and infinity
  });
}

// Both layers on `ranks` ranks with `pes` PEs each, forward and backward, of whole tensors.
void check_whole_outside(const std::string& backend, int ranks, int pes) {
  TensorParallelWorld world(
      ranks, {.backend = backend, .parallel = {.tensor_model_parallel_size = ranks}});
  const Matrix w = Matrix::of_integers(12, 12, 2, 1);
  const Matrix x = Matrix::of_integers(3, 12, 2, 2);
  const Matrix dy = Matrix::of_integers(3, 12, 2, 3);
  const Matrix dw = x.transposed() * dy;
  const TensorOptions everywhere{.dp = tp::policy_over_pes(Shard::replicate, 1, pes)};
  world.spawn([&](int rank) {
    CAPTURE(backend, ranks, pes, rank);
    ColumnParallelLinear column(world.torch, {.in_features = 12,
                                              .out_features = 12,
                                              .gather_output = true,
                                              .dtype = DType::f32,
                                              .num_pes = pes});
    RowParallelLinear row(world.torch, {.in_features = 12,
                                        .out_features = 12,
                                        .input_is_parallel = false,
                                        .dtype = DType::f32,
                                        .num_pes = pes});
    set(column.weight, w.columns_of(rank, ranks));
    set(row.weight, w.rows_of(rank, ranks));
    const auto check = [&](const auto& layer, const Matrix& expected) {
      const Tensor input = world.leaf(x, everywhere);
      const Tensor y = layer.forward(input);
      CHECK(y.to_vector() == (x * w).elements);
      y.backward(world.tensor(dy, everywhere));
      CHECK(input.grad().to_vector() == (dy * w.transposed()).elements);
      CHECK(layer.weight.grad().to_vector() == expected.elements);
    };
    check(column, dw.columns_of(rank, ranks));
    check(row, dw.rows_of(rank, ranks));
    CHECK(column.forward(world.tensor(x, everywhere), {}, false).shape() == Shape{3, 12 / ranks});
  });
}

TEST_CASE("gather_output and input_is_parallel = false: whole tensors outside, cut ones inside",
          "[tp][layers]") {
  for (const char* backend : {"local", "ahbm"}) {
    for (const int ranks : {1, 2, 3}) {
      for (const int pes : {1, 2}) check_whole_outside(backend, ranks, pes);
    }
  }
}

TEST_CASE("skip_bias_add hands the bias out, of a gathered output this rank's part",
          "[tp][layers]") {
  constexpr int kRanks = 2;
  on_ranks(kRanks, [](TensorParallelWorld& world, int rank) {
    const Matrix b = Matrix::of_integers(1, 4, 2, 1);
    const Tensor x = world.filled({3, 4}, 1);
    ColumnParallelLinear column(world.torch, {.in_features = 4,
                                              .out_features = 4,
                                              .gather_output = true,
                                              .skip_bias_add = true,
                                              .init_method = tp::init_method_constant(2),
                                              .dtype = DType::f32});
    set(column.bias, b.columns_of(rank, kRanks));
    const auto [y, bias] = column.forward_with_bias(x);
    CHECK(y.to_vector() == Floats(12, 8));
    CHECK(bias.to_vector() == b.columns_of(rank, kRanks).elements);
    CHECK(column.forward(x).to_vector() == Floats(12, 8));

    RowParallelLinear row(world.torch, {.in_features = 8,
                                        .out_features = 4,
                                        .skip_bias_add = true,
                                        .init_method = tp::init_method_constant(2),
                                        .dtype = DType::f32});
    set(row.bias, b);
    const auto [sum, whole_bias] = row.forward_with_bias(x);
    CHECK(sum.to_vector() == Floats(12, 16));
    CHECK(whole_bias.to_vector() == b.elements);

    const ColumnParallelLinear adds(world.torch,
                                    {.in_features = 4, .out_features = 4, .dtype = DType::f32});
    CHECK_FALSE(adds.forward_with_bias(x).second.defined());
  });
}

TEST_CASE("a weight may be given to forward", "[tp][layers]") {
  on_ranks(2, [](TensorParallelWorld& world, int) {
    const ColumnParallelLinear layer(world.torch, {.in_features = 3,
                                                   .out_features = 4,
                                                   .bias = false,
                                                   .skip_weight_param_allocation = true,
                                                   .dtype = DType::f32});
    CHECK(layer.parameters().empty());
    const Tensor x = world.filled({1, 3}, 1);
    CHECK(layer.forward(x, world.filled({3, 2}, 5)).to_vector() == Floats{15, 15});
    CHECK_THROWS_MATCHES(layer.forward(x), CollectiveError,
                         Says("KB-T006",
                              "weight was not supplied to ColumnParallelLinear forward pass and "
                              "skip_weight_param_allocation is True."));
    CHECK_THROWS_MATCHES(layer.forward(x, world.filled({3, 4}, 5)), CollectiveError,
                         Says("KB-T006", "[3, 4]", "[3, 2]"));
  });
}

TEST_CASE("options that do not go together are refused", "[tp][layers]") {
  on_ranks(2, [](TensorParallelWorld& world, int) {
    CHECK_THROWS_MATCHES(
        RowParallelLinear(world.torch, {.in_features = 4,
                                        .out_features = 4,
                                        .input_is_parallel = false,
                                        .sequence_parallel = true}),
        CollectiveError,
        Says("KB-T006", "To enable `sequence_parallel`, `input_is_parallel` must be `True`"));
    CHECK_THROWS_MATCHES(ColumnParallelLinear(world.torch, {.in_features = 4,
                                                            .out_features = 4,
                                                            .gather_output = true,
                                                            .sequence_parallel = true}),
                         CollectiveError, Says("KB-T006", "gather_output", "sequence_parallel"));
    CHECK_THROWS_MATCHES(
        ColumnParallelLinear(world.torch, {.in_features = 4, .out_features = 5, .name = "fc"}),
        CollectiveError, Says("KB-T001", "5 is not divisible by 2", "out_features", "'fc.weight'"));
    CHECK_THROWS_MATCHES(
        RowParallelLinear(world.torch, {.in_features = 5, .out_features = 4, .name = "fc"}),
        CollectiveError, Says("KB-T001", "5 is not divisible by 2", "in_features", "'fc.weight'"));
    CHECK_THROWS_MATCHES(
        RowParallelLinear(world.torch,
                          {.in_features = 6, .out_features = 4, .stride = 2, .name = "fc"}),
        CollectiveError,
        Says("KB-T001", "3 is not divisible by 2", "in_features", "'fc.weight'", "stride"));
    const ColumnParallelLinear sequence(
        world.torch, {.in_features = 4, .out_features = 4, .sequence_parallel = true});
    const Tensor part = world.torch.zeros({2, 4}, {.dtype = DType::f16, .dp = world.kOne.dp});
    CHECK_THROWS_MATCHES(sequence.forward(part, {}, true), CollectiveError,
                         Says("KB-T006", "gather_output", "sequence_parallel"));
  });
  TensorParallelWorld world(2, {});
  tp::destroy_model_parallel(world.torch);
  CHECK_THROWS_MATCHES(ColumnParallelLinear(world.torch, {.in_features = 4, .out_features = 4}),
                       CollectiveError,
                       Says("KB-T002", "tensor model parallel group is not initialized"));
}

// weight -= gradient / 2, of a PE's part.
void descend(tl::Context& tl, tl::Pointer weight, tl::Pointer gradient, std::int64_t elements) {
  const tl::Tensor step = tl.load(gradient, {elements}, weight.dtype()) * 0.5;
  tl.store(weight, tl.load(weight, {elements}, weight.dtype()) - step);
}

TEST_CASE("a kernel of the user's takes a step of SGD on a layer's parameters", "[tp][layers]") {
  on_ranks(2, [](TensorParallelWorld& world, int rank) {
    ColumnParallelLinear layer(world.torch,
                               {.in_features = 4, .out_features = 6, .dtype = DType::f32});
    const Matrix x = Matrix::of_integers(4, 4, 2, 1);
    const Matrix w = Matrix::of_integers(4, 6, 2, 2);
    const Matrix dy = Matrix::of_integers(4, 6, 2, 3);
    set(layer.weight, w.columns_of(rank, 2));
    layer.forward(world.tensor(x)).backward(world.tensor(dy.columns_of(rank, 2)));
    for (const tp::Parameter& parameter : layer.parameters()) {
      world.torch.launch("sgd", descend, parameter, parameter.grad(), parameter.numel());
    }
    const auto descended = [](float value, float gradient) { return value - gradient / 2; };
    CHECK(layer.weight.to_vector() ==
          w.zipped(x.transposed() * dy, descended).columns_of(rank, 2).elements);
    CHECK(layer.bias.to_vector() ==
          Matrix(1, 6).zipped(dy.sum_of_rows(), descended).columns_of(rank, 2).elements);
  });
}

TEST_CASE("inputs of three dimensions", "[tp][layers]") {
  constexpr int kRanks = 2;
  on_ranks(kRanks, [](TensorParallelWorld& world, int rank) {
    const Matrix x = Matrix::of_integers(12, 4, 2, 1);
    const Matrix w = Matrix::of_integers(4, 6, 2, 2);
    const Matrix dy = Matrix::of_integers(12, 6, 2, 3);
    for (const bool sequence_parallel : {false, true}) {
      ColumnParallelLinear layer(world.torch, {.in_features = 4,
                                               .out_features = 6,
                                               .sequence_parallel = sequence_parallel,
                                               .dtype = DType::f32});
      set(layer.weight, w.columns_of(rank, kRanks));
      const auto part = [&](const Matrix& m) {
        return sequence_parallel ? m.rows_of(rank, kRanks) : m;
      };
      const std::int64_t s = sequence_parallel ? 3 : 6;
      Tensor input = world.tensor(part(x).elements, {s, 2, 4});
      input.requires_grad_();
      const Tensor y = layer.forward(input);
      CHECK(y.shape() == Shape{6, 2, 3});
      CHECK(y.to_vector() == (x * w).columns_of(rank, kRanks).elements);
      y.backward(world.tensor(dy.columns_of(rank, kRanks).elements, {6, 2, 3}));
      CHECK(input.grad().to_vector() == part(dy * w.transposed()).elements);
      CHECK(layer.weight.grad().to_vector() ==
            (x.transposed() * dy).columns_of(rank, kRanks).elements);
      CHECK(layer.bias.grad().to_vector() == dy.sum_of_rows().columns_of(rank, kRanks).elements);
    }
  });
}

// Megatron's test of linear_with_frozen_weight.
TEST_CASE("through a frozen weight the input's gradient flows", "[tp][layers]") {
  for (const int ranks : {1, 8}) {
    on_ranks(ranks, [&](TensorParallelWorld& world, int) {
      ColumnParallelLinear layer(world.torch, {.in_features = 8,
                                               .out_features = 8,
                                               .gather_output = true,
                                               .init_method = tp::init_method_constant(1),
                                               .dtype = DType::f32});
      layer.weight.requires_grad_(false);
      Matrix eye(8, 8);
      for (int i = 0; i < 8; ++i) eye.at(i, i) = 1;
      const Tensor x = world.leaf(eye);
      const Tensor y = layer.forward(x);
      CHECK(y.to_vector() == Floats(64, 1));
      sum(y).backward();
      CHECK(x.grad().to_vector() == Floats(64, 8));
      CHECK_FALSE(layer.weight.grad().defined());
    });
  }
}

TEST_CASE("of an input that needs no gradient none is computed or sent", "[tp][layers]") {
  on_ranks(2, [](TensorParallelWorld& world, int) {
    const ColumnParallelLinear layer(world.torch,
                                     {.in_features = 4, .out_features = 4, .dtype = DType::f32});
    const Tensor y = layer.forward(world.filled({2, 4}, 1));
    const auto group = tp::get_tensor_model_parallel_group(world.torch);
    const std::uint64_t calls = group.group()->ledger.next_sequence(0);
    y.backward(world.filled({2, 2}, 1));
    CHECK(layer.weight.grad().to_vector() == Floats(8, 2));
    CHECK(group.group()->ledger.next_sequence(0) == calls);
  });
}

// The MLP has real-valued weights here, and all ranks must have the same bits.
TEST_CASE("a two-layer MLP of real numbers has the same bits on all ranks", "[tp][layers]") {
  constexpr int kRanks = 4;
  for (const char* backend : {"local", "ahbm"}) {
    std::vector<Floats> outputs(kRanks);
    TensorParallelWorld world(
        kRanks, {.backend = backend, .parallel = {.tensor_model_parallel_size = kRanks}});
    world.spawn([&](int rank) {
      const ColumnParallelLinear fc1(world.torch, {.in_features = 16, .out_features = 64});
      const RowParallelLinear fc2(world.torch, {.in_features = 64, .out_features = 16});
      const Tensor x =
          world.torch.full({4, 16}, 0.5, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
      outputs[static_cast<std::size_t>(rank)] = fc2.forward(relu(fc1.forward(x))).to_vector();
    });
    for (const Floats& output : outputs) CHECK(output == outputs.front());
    CHECK(outputs.front() != Floats(64));
  }
}

TEST_CASE("backward twice adds, and zero_grad begins anew", "[tp][layers]") {
  on_ranks(2, [](TensorParallelWorld& world, int) {
    ColumnParallelLinear layer(world.torch,
                               {.in_features = 4, .out_features = 4, .dtype = DType::f32});
    const Tensor x = world.filled({2, 4}, 1);
    const Tensor dy = world.filled({2, 2}, 1);
    layer.forward(x).backward(dy);
    layer.forward(x).backward(dy);
    CHECK(layer.weight.grad().to_vector() == Floats(8, 4));
    layer.weight.zero_grad();
    layer.forward(x).backward(dy);
    CHECK(layer.weight.grad().to_vector() == Floats(8, 2));
  });
}

}  // namespace
}  // namespace kernbench::test::linear_layers_test
