#include <algorithm>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/shard_spec.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed::checkpoint {

namespace {

const ShardSpec* spec_of(const Tensor& tensor) {
  return tensor.storage()->shard_of.get();
}

// Returns the whole parameter that a tensor is a shard of; other tensors as they are.
Tensor gathered(const Tensor& tensor) {
  const ShardSpec* const spec = spec_of(tensor);
  if (spec == nullptr) return tensor;
  RuntimeContext& torch = runtime::context_of(*tensor.storage()->simulation);
  const NoGradGuard no_grad(torch);
  const Tensor& own = spec->padded;
  std::vector<std::int64_t> sizes(own.shape().begin(), own.shape().end());
  sizes[0] *= torch.distributed.get_world_size(spec->group);
  const Tensor all =
      ops::make_like(own, spec->name, Shape(sizes), own.dtype(), ops::placement_of(own));
  torch.distributed.all_gather_into_tensor(all, own, {.group = spec->group});
  return runtime::make_stretch_view(all, 0, 0, spec->parameter.shape()[0]);
}

// Returns the rows of a whole parameter that a shard has.
Tensor rows_for(const Tensor& shard, const Tensor& whole) {
  const ShardSpec* const spec = spec_of(shard);
  if (spec == nullptr || whole.shape() != spec->parameter.shape()) return whole;
  const std::vector<float> all = whole.to_vector();
  const std::int64_t rows = whole.shape()[0];
  const std::int64_t first = std::min(spec->first_row, rows);
  const auto begin = all.begin() + (rows == 0 ? 0 : first * (whole.numel() / rows));
  return RuntimeContext::tensor(std::vector(begin, begin + shard.numel()), shard.shape());
}

}  // namespace

nn::StateDict get_model_state_dict(const nn::Module& module, const StateDictOptions& options) {
  const nn::StateDict state = module.state_dict();
  if (!options.full_state_dict) return state;
  nn::StateDict whole;
  for (const auto& item : state) whole.insert(item.key(), gathered(item.value()));
  return whole;
}

nn::IncompatibleKeys set_model_state_dict(nn::Module& module, const nn::StateDict& state,
                                          const StateDictOptions& options) {
  if (!options.full_state_dict) return module.load_state_dict(state, {.strict = options.strict});
  const nn::StateDict own = module.state_dict();
  nn::StateDict shards;
  for (const auto& item : state) {
    const Tensor* const shard = own.find(item.key());
    shards.insert(item.key(), shard == nullptr ? item.value() : rows_for(*shard, item.value()));
  }
  return module.load_state_dict(shards, {.strict = options.strict});
}

}  // namespace kernbench::distributed::checkpoint
