#include "benches/tensor_parallel/parallel_mlp.h"

#include "runtime/functional/functional.h"

namespace kernbench::benches::tensor_parallel {

namespace F = nn::functional;

ParallelMlp::ParallelMlp(RuntimeContext& torch, const ParallelMlpOptions& options)
    : activation_(options.activation),
      up_(torch, {.in_features = options.hidden,
                  .out_features = options.ffn,
                  .sequence_parallel = options.sequence_parallel,
                  .async_tensor_model_parallel_allreduce = options.overlap,
                  .perform_initialization = false,
                  .dtype = options.dtype,
                  .num_cubes = options.pes,
                  .name = options.name + ".up"}),
      down_(torch, {.in_features = options.ffn,
                    .out_features = options.hidden,
                    .sequence_parallel = options.sequence_parallel,
                    .perform_initialization = false,
                    .dtype = options.dtype,
                    .num_cubes = options.pes,
                    .name = options.name + ".down"}) {}

Tensor ParallelMlp::forward(const Tensor& x) const {
  const Tensor h = up_(x);
  return down_(activation_ == Activation::relu ? relu(h) : F::gelu(h, F::Approximate::tanh));
}

std::vector<tp::Parameter> ParallelMlp::parameters() const {
  return {up_.weight, up_.bias, down_.weight, down_.bias};
}

}  // namespace kernbench::benches::tensor_parallel
