// Layers of tp are called as torch's modules: module(x) calls hooks, module.forward(x) calls none.

#include <catch2/catch.hpp>

#include "runtime/functional/functional.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"

namespace kernbench::test::hooks_test {
namespace {

const WorldOptions kWorld{.parallel = {.tensor_model_parallel_size = 2}};

// The layer's result for x with hooks that double the input and negate the output.
template <class Layer>
void check_hooks(Layer& layer, const Tensor& x) {
  const Floats plain = layer.forward(x).to_vector();
  const Floats of_doubled = layer.forward(x + x).to_vector();
  int before = 0;
  int after = 0;
  layer.register_forward_pre_hook([&](nn::Module& module, const Tensor& input) {
    CHECK(&module == &layer);
    ++before;
    return input + input;
  });
  const unsigned last =
      layer.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor& output) {
        ++after;
        return output * -1;
      });
  CHECK(layer.forward(x).to_vector() == plain);
  CHECK((before == 0 && after == 0));
  const Layer& constant = layer;
  Floats expected = of_doubled;
  for (float& element : expected) element = -element;
  CHECK(constant(x).to_vector() == expected);
  CHECK((before == 1 && after == 1));
  layer.remove_hook(last);
  CHECK(constant(x).to_vector() == of_doubled);
  CHECK((before == 2 && after == 1));
}

TEST_CASE("a layer that is called calls its hooks, and forward() calls none", "[tp][layers]") {
  TensorParallelWorld world(2, kWorld);
  world.spawn([&](int) {
    const Tensor x = world.torch.ones({4, 6}, {.dp = DPPolicy::on_one_pe()});
    tp::ColumnParallelLinear up(world.torch,
                                {.in_features = 6, .out_features = 8, .dtype = DType::f32});
    check_hooks(up, x);
    tp::RowParallelLinear down(world.torch,
                               {.in_features = 12, .out_features = 4, .dtype = DType::f32});
    check_hooks(down, x);
    tp::VocabParallelEmbedding words(
        world.torch, {.num_embeddings = 8, .embedding_dim = 4, .dtype = DType::f32});
    check_hooks(words, world.torch.ones({5}, {.dp = DPPolicy::on_one_pe()}));
  });
}

}  // namespace
}  // namespace kernbench::test::hooks_test
