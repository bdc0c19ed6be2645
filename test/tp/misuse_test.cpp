// Tensors that are no operands: none may get as far as a kernel or a collective.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/autograd/autograd.h"
#include "test/tp/all_mappings.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"

namespace kernbench::test::misuse_test {
namespace {

std::vector<Mapping> all_layers() {
  const auto column = [](RuntimeContext& torch, const Tensor& x) {
    return tp::ColumnParallelLinear(torch, {.in_features = 4, .out_features = 4}).forward(x);
  };
  return {
      {"column", column},
      {"column without gradients",
       [=](RuntimeContext& torch, const Tensor& x) {
         const NoGradGuard no_grad(torch);
         return column(torch, x);
       }},
      {"row",
       [](RuntimeContext& torch, const Tensor& x) {
         return tp::RowParallelLinear(torch, {.in_features = 4, .out_features = 4}).forward(x);
       }},
      {"row of a whole input",
       [](RuntimeContext& torch, const Tensor& x) {
         return tp::RowParallelLinear(
                    torch, {.in_features = 4, .out_features = 4, .input_is_parallel = false})
             .forward(x);
       }},
      {"embedding",
       [](RuntimeContext& torch, const Tensor& x) {
         return tp::VocabParallelEmbedding(torch, {.num_embeddings = 4, .embedding_dim = 4})
             .forward(x);
       }},
      {"cross_entropy",
       [](RuntimeContext& torch, const Tensor& x) {
         return tp::vocab_parallel_cross_entropy(torch, x, x);
       }},
  };
}

void check_refusals(int ranks, const std::vector<Mapping>& uses) {
  RuntimeContext other(round_topology(SipTopology::ring_1d, ranks, 1, 1, 1));
  const Tensor foreign = other.ones({4, 4}, TensorParallelWorld::kOne);
  TensorParallelWorld world(ranks, {.parallel = {.tensor_model_parallel_size = ranks}});
  world.spawn([&](int) {
    for (const Mapping& use : uses) {
      CAPTURE(ranks, use.name);
      const Tensor on_host = RuntimeContext::tensor(Floats(16, 1), {4, 4});
      CHECK_THROWS_MATCHES(use.map(world.torch, on_host), DeviceError, Says("KB-M019"));
      CHECK_THROWS_MATCHES(use.map(world.torch, Tensor()), DeviceError, Says("KB-M001"));
      CHECK_THROWS_MATCHES(use.map(world.torch, foreign), DeviceError, Says("KB-M013"));
    }
  });
}

TEST_CASE("mappings refuse tensors on the host, undefined ones and those of another context",
          "[tp][misuse]") {
  for (const int ranks : {1, 2}) check_refusals(ranks, all_mappings());
}

TEST_CASE("layers and the loss refuse them, too", "[tp][misuse]") {
  for (const int ranks : {1, 2}) check_refusals(ranks, all_layers());
}

TEST_CASE("mappings along a dimension refuse a tensor that has none", "[tp][misuse]") {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  world.spawn([&](int) {
    const Tensor scalar = world.tensor(Floats{1}, {});
    for (const Mapping& use : all_mappings()) {
      if (use.name == "copy_to" || use.name == "reduce_from") continue;
      CAPTURE(use.name);
      CHECK_THROWS_MATCHES(use.map(world.torch, scalar), DeviceError, Says("KB-F001"));
    }
  });
}

// Returns the report about a rank 0 that calls alone.
std::string report_of(const std::function<void(TensorParallelWorld&)>& call) {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  return error_of<DeadlockError>([&] {
    world.spawn([&](int rank) {
      if (rank == 0) call(world);
    });
  });
}

TEST_CASE("a rank that calls a mapping or a layer alone is told its own line",
          "[tp][misuse][errors]") {
  const auto check_line = [](const std::string& text, int line) {
    CHECK_THAT(text, Says("KB-C002", "rank 1", fmt::format("misuse_test.cpp:{}", line)));
  };
  int line = 0;
  std::string report;
  report = report_of([&](TensorParallelWorld& world) {
    const Tensor x = world.filled({2, 2}, 1);
    line = __LINE__ + 1;
    tp::gather_from_tensor_model_parallel_region(world.torch, x);
  });
  check_line(report, line);
  report = report_of([&](TensorParallelWorld& world) {
    const Tensor x = world.filled({2, 2}, 1);
    const auto group = tp::get_tensor_model_parallel_group(world.torch);
    line = __LINE__ + 1;
    tp::all_to_all(world.torch, group, x);
  });
  check_line(report, line);
  report = report_of([&](TensorParallelWorld& world) {
    const tp::RowParallelLinear layer(world.torch,
                                      {.in_features = 4, .out_features = 2, .dtype = DType::f32});
    const Tensor x = world.filled({2, 2}, 1);
    line = __LINE__ + 1;
    layer.forward(x);
  });
  check_line(report, line);
  // Backward alone: the line of forward.
  report = report_of([&](TensorParallelWorld& world) {
    const tp::ColumnParallelLinear layer(
        world.torch, {.in_features = 2, .out_features = 4, .dtype = DType::f32});
    Tensor x = world.filled({2, 2}, 1);
    x.requires_grad_();
    line = __LINE__ + 1;
    const Tensor y = layer.forward(x);
    y.backward(world.filled({2, 2}, 1));
  });
  check_line(report, line);
}

}  // namespace
}  // namespace kernbench::test::misuse_test
