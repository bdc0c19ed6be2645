// Calls that lack the context, or have one too many: compiled by tests that read what is said.

#include "runtime/nn/layers.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/torch/runtime_context.h"
#include "tp/distributed_data_parallel.h"
#include "tp/layers.h"

namespace kb = kernbench;

struct NetImpl : kb::nn::Module {
  explicit NetImpl(kb::RuntimeContext&) {}
  kb::Tensor forward(const kb::Tensor& x) const { return x; }
};
KERNBENCH_MODULE(Net);

void wrong(kb::RuntimeContext& torch, const Net& net) {
#if defined(KERNBENCH_TEST_LAYER)
  kb::nn::Linear layer(8, 4);
#elif defined(KERNBENCH_TEST_TYPED_LAYER)
  kb::nn::Linear layer(8, 4, {.dtype = kb::DType::f16});
#elif defined(KERNBENCH_TEST_LAYER_OPTIONS)
  kb::nn::Linear layer(kb::nn::LinearOptions(8, 4).bias(false));
#elif defined(KERNBENCH_TEST_OWN_MODULE)
  Net other;
#elif defined(KERNBENCH_TEST_PARALLEL_LAYER)
  kb::tp::RowParallelLinear layer(8, 4);
#elif defined(KERNBENCH_TEST_PARALLEL_OPTIONS)
  kb::tp::VocabParallelEmbedding layer({.num_embeddings = 8, .embedding_dim = 4});
#elif defined(KERNBENCH_TEST_MEGATRON)
  kb::tp::DistributedDataParallel ddp(kb::tp::DistributedDataParallelConfig(), net);
#elif defined(KERNBENCH_TEST_TENSOR)
  kb::zeros({2});
#elif defined(KERNBENCH_TEST_REPLICA)
  kb::nn::parallel::DistributedDataParallel ddp(torch, net);
#else
  const kb::nn::Linear layer(torch, 8, 4);
  const kb::tp::RowParallelLinear row(torch, 8, 4);
  const kb::nn::parallel::DistributedDataParallel ddp(net);
  const Net copy = net;
  torch.zeros({2});
#endif
}
