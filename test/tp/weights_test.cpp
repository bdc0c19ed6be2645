// First weights, and the attributes of parameters.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/torch/run_ranks.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"
#include "tp/parameter.h"
#include "tp/random.h"

namespace kernbench::test::weights_test {
namespace {

using tp::ColumnParallelLinear;
using tp::RowParallelLinear;

constexpr std::uint64_t kSeed = 12345;

// On `ranks` ranks in one group, seeded.
void on_seeded_ranks(int ranks, const std::function<void(TensorParallelWorld&, int)>& body) {
  TensorParallelWorld world(ranks, {.parallel = {.tensor_model_parallel_size = ranks}});
  world.spawn([&](int rank) {
    tp::model_parallel_manual_seed(world.torch, kSeed);
    body(world, rank);
  });
}

template <class Layer>
Matrix whole_weight(RuntimeContext& torch, int stride) {
  const Layer layer(torch, {.in_features = 16,
                            .out_features = 16,
                            .stride = stride,
                            .init_method = tp::xavier_uniform(),
                            .dtype = DType::f32});
  Matrix whole(layer.weight.shape()[0], layer.weight.shape()[1]);
  whole.elements = layer.weight.to_vector();
  return whole;
}

TEST_CASE("weights do not depend on how many ranks share them", "[tp][weights]") {
  Matrix column(16, 16);
  Matrix row(16, 16);
  on_seeded_ranks(1, [&](TensorParallelWorld& world, int) {
    column = whole_weight<ColumnParallelLinear>(world.torch, 1);
    row = whole_weight<RowParallelLinear>(world.torch, 1);
  });
  CHECK(column.elements != row.elements);
  on_seeded_ranks(4, [&](TensorParallelWorld& world, int rank) {
    CHECK(whole_weight<ColumnParallelLinear>(world.torch, 1).elements ==
          column.columns_of(rank, 4).elements);
    CHECK(whole_weight<RowParallelLinear>(world.torch, 1).elements ==
          row.rows_of(rank, 4).elements);
  });
}

TEST_CASE("with a stride a rank has a chunk of each part", "[tp][weights]") {
  Matrix row(16, 16);
  Matrix column(16, 16);
  on_seeded_ranks(1, [&](TensorParallelWorld& world, int) {
    row = whole_weight<RowParallelLinear>(world.torch, 1);
    column = whole_weight<ColumnParallelLinear>(world.torch, 1);
  });
  // The weight has chunks 0 1 0 1 of 4 rows each.
  const auto rows_of = [](const Matrix& whole, int rank) {
    Matrix made(8, 16);
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 16; ++j) made.at(i, j) = whole.at(4 * rank + i + (i < 4 ? 0 : 4), j);
    }
    return made;
  };
  on_seeded_ranks(2, [&](TensorParallelWorld& world, int rank) {
    CHECK(whole_weight<RowParallelLinear>(world.torch, 2).elements == rows_of(row, rank).elements);
    CHECK(whole_weight<ColumnParallelLinear>(world.torch, 2).elements ==
          rows_of(column.transposed(), rank).transposed().elements);
  });
}

TEST_CASE("a part of a weight is drawn alone, and is that of the whole", "[tp][weights]") {
  const Shape shape{6, 10};
  const auto count = static_cast<std::size_t>(shape.numel());
  for (const tp::InitMethod& method :
       {tp::init_method_normal(1), tp::xavier_uniform(), tp::init_method_constant(2),
        tp::InitMethod([](const Shape&whole, tp::Generator&from) {
          Floats all(static_cast<std::size_t>(whole.numel()));
          for (float& element : all) element = from.uniform();
          return all;
        })}) {
    tp::Generator of_whole(7);
    tp::Generator of_part(7);
    const Floats whole = method(shape, of_whole);
    CHECK(whole.size() == count);
    const std::vector<tp::ElementRun> runs = {{2, 3}, {20, 1}, {57, 3}};
    CHECK(method(shape, of_part, runs) ==
          Floats{whole[2], whole[3], whole[4], whole[20], whole[57], whole[58], whole[59]});
    CHECK(of_part == of_whole);  // what is drawn next is the same
  }
}

TEST_CASE("a method that gives a rank's part is told that the whole is wanted",
          "[tp][weights][errors]") {
  on_seeded_ranks(2, [](TensorParallelWorld& world, int) {
    CHECK_THAT(error_of<CollectiveError>([&] {
                 const ColumnParallelLinear layer(world.torch,
                                                  {.in_features = 2,
                                                   .out_features = 4,
                                                   .init_method = [](const Shape&, tp::Generator&) {
                                                     return Floats{1, 2, 3, 4};
                                                   }});
               }),
               Says("KB-T006", "init_method gave 4", "[2, 4]", "8"));
  });
}

TEST_CASE("inside a fork ranks draw different weights", "[tp][weights]") {
  std::vector<Floats> of_ranks(2);
  on_seeded_ranks(2, [&](TensorParallelWorld& world, int rank) {
    const tp::RNGFork fork = tp::get_rng_tracker(world.torch).fork();
    of_ranks[static_cast<std::size_t>(rank)] =
        whole_weight<RowParallelLinear>(world.torch, 1).elements;
  });
  CHECK(of_ranks[0] != of_ranks[1]);
}

TEST_CASE("methods of initialization", "[tp][weights]") {
  tp::Generator generator(1);
  const Shape shape{200, 100};
  const auto spread = [](const Floats& elements) {
    double squares = 0;
    for (const float e : elements) squares += static_cast<double>(e) * e;
    return std::sqrt(squares / static_cast<double>(elements.size()));
  };
  // Five standard deviations of the estimate, 1 / sqrt(2 n).
  CHECK(spread(tp::init_method_normal(0.5)(shape, generator)) ==
        Approx(0.5).epsilon(5 / std::sqrt(40'000.0)));
  CHECK(spread(tp::scaled_init_method_normal(0.5, 8)(shape, generator)) ==
        Approx(0.125).epsilon(5 / std::sqrt(40'000.0)));
  const Floats uniform = tp::xavier_uniform()(shape, generator);
  const auto bound = static_cast<float>(std::sqrt(6.0 / 300));
  CHECK(*std::ranges::max_element(uniform) <= bound);
  CHECK(*std::ranges::max_element(uniform) > 0.99F * bound);
  CHECK(*std::ranges::min_element(uniform) >= -bound);
  CHECK(tp::init_method_constant(3)(shape, generator) == Floats(20'000, 3));
}

TEST_CASE("making weights takes no simulated time, and without data none are drawn",
          "[tp][weights]") {
  for (const bool data : {true, false}) {
    RuntimeContext torch(round_topology(), {.data = data});
    torch.distributed.init_process_group("local");
    tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = 2});
    run_on_devices(torch, 2, [&](int) {
      const ColumnParallelLinear layer(torch, {.in_features = 64, .out_features = 64});
      CHECK(torch.engine().now() == Time{0});
      CHECK((tp::default_generator(torch) != tp::Generator(67280421310721)) == data);
    });
  }
}

TEST_CASE("parameters have Megatron's attributes, initialized or not", "[tp][weights]") {
  on_seeded_ranks(2, [](TensorParallelWorld& world, int rank) {
    const ColumnParallelLinear column(
        world.torch, {.in_features = 4, .out_features = 4, .perform_initialization = false});
    const RowParallelLinear row(world.torch, {.in_features = 4,
                                              .out_features = 4,
                                              .sequence_parallel = true,
                                              .perform_initialization = false});
    CHECK(std::isnan(column.weight.at({0, 0})));
    // As the weights are Megatron's transposed, so are the dimensions.
    CHECK(column.weight.attributes == tp::TensorModelParallelAttributes{true, 1, 1});
    CHECK(column.bias.attributes == tp::TensorModelParallelAttributes{true, 0, 1});
    CHECK(row.weight.attributes == tp::TensorModelParallelAttributes{true, 0, 1});
    CHECK(row.bias.attributes == tp::TensorModelParallelAttributes{false, -1, 1});
    CHECK(row.bias.sequence_parallel);
    CHECK_FALSE(row.weight.sequence_parallel);
    CHECK_FALSE(column.bias.sequence_parallel);
    CHECK(tp::param_is_not_tensor_parallel_duplicate(world.torch, column.weight));
    CHECK(tp::param_is_not_tensor_parallel_duplicate(world.torch, row.bias) == (rank == 0));
  });
}

TEST_CASE("attributes are set once, copied, or filled in", "[tp][weights]") {
  tp::Parameter a;
  tp::set_tensor_model_parallel_attributes(a, true, 1, 2);
  CHECK_THROWS_MATCHES(tp::set_tensor_model_parallel_attributes(a, true, 1, 2), CollectiveError,
                       Says("KB-T006", "'a parameter'"));
  tp::set_defaults_if_not_set_tensor_model_parallel_attributes(a);
  CHECK(a.attributes == tp::TensorModelParallelAttributes{true, 1, 2});
  tp::Parameter b;
  tp::copy_tensor_model_parallel_attributes(b, tp::Parameter());
  CHECK_FALSE(b.attributes.has_value());
  tp::set_defaults_if_not_set_tensor_model_parallel_attributes(b);
  CHECK(b.attributes == tp::TensorModelParallelAttributes{});
  tp::copy_tensor_model_parallel_attributes(b, a);
  CHECK(b.attributes == a.attributes);
}

}  // namespace
}  // namespace kernbench::test::weights_test
