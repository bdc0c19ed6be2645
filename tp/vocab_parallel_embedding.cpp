#include <fmt/format.h>

#include <utility>

#include "runtime/functional/functional.h"
#include "tp/layer_input.h"
#include "tp/layers.h"
#include "tp/product_in_blocks.h"

namespace kernbench::tp {

VocabParallelEmbedding::VocabParallelEmbedding(RuntimeContext& torch,
                                               VocabParallelEmbeddingOptions options)
    : torch_(torch),
      options_(std::move(options)),
      group_(group_or_tensor_model_parallel(torch, options_.tp_group)),
      words_(vocab_range_from_per_partition_vocab_size(
          divide(options_.num_embeddings, torch.distributed.get_world_size(group_),
                 fmt::format("num_embeddings of '{}', the ranks of its group", options_.name)),
          torch.distributed.get_rank(group_))) {
  if (options_.reduce_scatter_embeddings) refuse_sequence_parts(torch, options_.name);
  weight =
      make_weight(torch, {options_.num_embeddings, options_.embedding_dim},
                  {.dim = 0,
                   .rank = torch.distributed.get_rank(group_),
                   .world_size = torch.distributed.get_world_size(group_)},
                  options_.init_method,
                  {.dtype = options_.dtype.value_or(DType::f16),
                   .dp = policy_of_part(options_, Shard::row_wise),
                   .name = options_.name + ".weight",
                   .perform_initialization = options_.perform_initialization});
  set_tensor_model_parallel_attributes(weight, true, 0, 1);
  register_parameter("weight", weight);
}

Tensor VocabParallelEmbedding::forward(const Tensor& ids, Location location) const {
  Tensor own = nn::functional::embedding(options_.dtype ? ids : move_to_holders(ids, weight),
                                         weight, {.first_index = words_.begin});
  if (options_.reduce_scatter_embeddings) {
    const Tensor tokens = ids.dim() == 1 ? own : transpose(own, 0, 1);
    return reduce_scatter_to_sequence_parallel_region(torch_, tokens, {group_, location});
  }
  return reduce_from_tensor_model_parallel_region(torch_, std::move(own), {group_, location});
}

}  // namespace kernbench::tp
