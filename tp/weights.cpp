#include "tp/weights.h"

#include <cmath>
#include <utility>

#include "runtime/tensor/logical_value.h"
#include "runtime/tensor/tensor_storage.h"
#include "tp/partition.h"
#include "tp/random.h"

namespace kernbench::tp {

namespace {

template <class Draw>
std::vector<float> drawn(const Shape& shape, Draw draw) {
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (float& element : elements) element = draw();
  return elements;
}

Shape shape_of_part(const Shape& whole, const WeightPartition& partition) {
  std::vector<std::int64_t> sizes(whole.begin(), whole.end());
  std::int64_t& size = sizes.at(static_cast<std::size_t>(partition.dim));
  size = divide(size, partition.world_size);
  divide(size, partition.stride);
  return Shape(sizes);
}

// The rank's chunks, one after the other.
std::vector<float> part_of(const std::vector<float>& elements, const Shape& whole,
                           const WeightPartition& partition) {
  const auto dim = static_cast<std::size_t>(partition.dim);
  const std::int64_t chunks = std::int64_t{partition.world_size} * partition.stride;
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < dim; ++i) outer *= whole[i];
  const std::int64_t row = outer == 0 ? 0 : whole.numel() / outer;
  const std::int64_t chunk = row / chunks;
  std::vector<float> part;
  part.reserve(elements.size() / static_cast<std::size_t>(partition.world_size));
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t c = partition.rank; c < chunks; c += partition.world_size) {
      const auto begin = elements.begin() + i * row + c * chunk;
      part.insert(part.end(), begin, begin + chunk);
    }
  }
  return part;
}

Tensor make_tensor(RuntimeContext& torch, const Shape& shape, const WeightOptions& options) {
  return torch.empty(shape, {.dtype = options.dtype, .dp = options.dp, .name = options.name});
}

void set_elements(RuntimeContext& torch, const Tensor& tensor, const std::vector<float>& elements) {
  sim::MemoryStore& memory = torch.simulation().machine().memory();
  runtime::store_block(*tensor.storage(), 0, memory.literal(tensor.dtype(), elements));
}

}  // namespace

InitMethod init_method_normal(double sigma) {
  return [scale = static_cast<float>(sigma)](const Shape& shape, Generator& generator) {
    return drawn(shape, [&] { return scale * generator.normal(); });
  };
}

InitMethod scaled_init_method_normal(double sigma, int num_layers) {
  return init_method_normal(sigma / std::sqrt(2.0 * num_layers));
}

InitMethod xavier_uniform() {
  return [](const Shape& shape, Generator& generator) {
    const auto bound =
        static_cast<float>(std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1])));
    return drawn(shape, [&] { return bound * (2 * generator.uniform() - 1); });
  };
}

InitMethod init_method_constant(double value) {
  return [element = static_cast<float>(value)](const Shape& shape, Generator&) {
    return std::vector<float>(static_cast<std::size_t>(shape.numel()), element);
  };
}

Parameter make_weight(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                      const InitMethod& init_method, const WeightOptions& options) {
  Parameter weight(make_tensor(torch, shape_of_part(whole, partition), options));
  if (options.perform_initialization && torch.options().data) {
    set_elements(torch, weight,
                 part_of(init_method(whole, default_generator(torch)), whole, partition));
  }
  weight.requires_grad_();
  return weight;
}

Parameter make_bias(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                    const WeightOptions& options) {
  Parameter bias(make_tensor(torch, shape_of_part(whole, partition), options));
  runtime::fill(*bias.storage(), 0);
  bias.requires_grad_();
  return bias;
}

DPPolicy policy_over_pes(Shard shard, int num_cubes, int num_pes) {
  return {.cube = num_cubes > 1 ? shard : Shard::replicate,
          .pe = num_pes > 1 ? shard : Shard::replicate,
          .num_cubes = num_cubes,
          .num_pes = num_pes};
}

}  // namespace kernbench::tp
