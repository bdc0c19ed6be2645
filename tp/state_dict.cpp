#include <algorithm>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/shard_spec.h"
#include "runtime/functional/functional.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/tensor/tensor_storage.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parallel_state.h"
#include "tp/parameter.h"
#include "tp/primitives.h"

namespace kernbench::tp {

namespace {

namespace checkpoint = distributed::checkpoint;

// The attributes of the parameters that tensor parallel ranks have parts of.
class Cuts {
 public:
  explicit Cuts(nn::Module& module) : parameters_(parallel_parameters(module)) {}

  // Null: all have the whole tensor.
  const TensorModelParallelAttributes* of(const Tensor& tensor) const {
    const auto found = std::ranges::find(parameters_, tensor.storage(), &Parameter::storage);
    if (found == parameters_.end() || !found->attributes) return nullptr;
    return found->attributes->tensor_model_parallel ? &*found->attributes : nullptr;
  }

 private:
  const std::vector<Parameter> parameters_;
};

// Ranks have chunks r, r + W, ...; gathered, each one's are side by side.
Tensor gathered(RuntimeContext& torch, const Tensor& part, const TensorModelParallelAttributes& cut,
                const ProcessGroup& group) {
  const Tensor all = cut.partition_dim == 0 ? gather_whole_along_first_dim(torch, part, group)
                                            : gather_along_last_dim(torch, part, group);
  const int stride = cut.partition_stride;
  if (stride == 1) return all;
  const int ranks = torch.distributed.get_world_size(group);
  const auto size = all.shape()[static_cast<std::size_t>(cut.partition_dim)];
  const std::vector<Tensor> chunks = split(all, size / (ranks * stride), cut.partition_dim);
  std::vector<Tensor> ordered;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const std::size_t rank = chunk % static_cast<std::size_t>(ranks);
    const std::size_t number = chunk / static_cast<std::size_t>(ranks);
    ordered.push_back(chunks[rank * static_cast<std::size_t>(stride) + number]);
  }
  return cat(ordered, cut.partition_dim);
}

// Returns this rank's part of a whole parameter; one that ranks cannot share as it is.
Tensor cut_part(RuntimeContext& torch, const Tensor& whole, const Tensor& own,
                const TensorModelParallelAttributes& cut, const ProcessGroup& group) {
  const auto& spec = own.storage()->shard_of;
  const Shape& part = spec == nullptr ? own.shape() : spec->parameter.shape();
  const WeightPartition partition{.dim = cut.partition_dim,
                                  .rank = torch.distributed.get_rank(group),
                                  .world_size = torch.distributed.get_world_size(group),
                                  .stride = cut.partition_stride};
  std::vector<std::int64_t> sizes(part.begin(), part.end());
  sizes.at(static_cast<std::size_t>(partition.dim)) *= partition.world_size;
  if (whole.shape() != Shape(sizes)) return whole;
  const std::vector<float> all = whole.to_vector();
  std::vector<float> elements;
  for (const ElementRun& run : runs_of(whole.shape(), partition)) {
    elements.insert(elements.end(), all.begin() + run.begin, all.begin() + run.begin + run.size);
  }
  return RuntimeContext::tensor(elements, part);
}

}  // namespace

nn::StateDict get_full_state_dict(RuntimeContext& torch, nn::Module& module) {
  const NoGradGuard no_grad(torch);
  const Cuts cuts(module);
  const ProcessGroup group = get_tensor_model_parallel_group(torch);
  const nn::StateDict own = module.state_dict();
  nn::StateDict state;
  for (const auto& item : checkpoint::get_model_state_dict(module, {.full_state_dict = true})) {
    const auto* const cut = cuts.of(own[item.key()]);
    state.insert(item.key(),
                 cut == nullptr ? item.value() : gathered(torch, item.value(), *cut, group));
  }
  return state;
}

nn::IncompatibleKeys set_full_state_dict(RuntimeContext& torch, nn::Module& module,
                                         const nn::StateDict& state,
                                         const nn::LoadOptions& options) {
  const Cuts cuts(module);
  const ProcessGroup group = get_tensor_model_parallel_group(torch);
  const nn::StateDict own = module.state_dict();
  nn::StateDict parts;
  for (const auto& item : state) {
    const Tensor* const tensor = own.find(item.key());
    const auto* const cut = tensor == nullptr ? nullptr : cuts.of(*tensor);
    parts.insert(item.key(), cut == nullptr ? item.value()
                                            : cut_part(torch, item.value(), *tensor, *cut, group));
  }
  return checkpoint::set_model_state_dict(module, parts,
                                          {.full_state_dict = true, .strict = options.strict});
}

}  // namespace kernbench::tp
