#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "runtime/simulation/simulation.h"
#include "runtime/tensor/logical_value.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "tp/misuse.h"
#include "tp/parameter.h"
#include "tp/random.h"

namespace kernbench::tp {

namespace {

Shape shape_of_part(const Shape& whole, const WeightPartition& partition,
                    const WeightOptions& options) {
  std::vector<std::int64_t> sizes(whole.begin(), whole.end());
  std::int64_t& size = sizes.at(static_cast<std::size_t>(partition.dim));
  const std::string what =
      options.cut_option.empty() ? std::string() : fmt::format("{} of ", options.cut_option);
  size = divide(size, partition.world_size,
                fmt::format("{}'{}', the ranks of its group", what, options.name));
  divide(size, partition.stride, fmt::format("a rank's {}'{}', its stride", what, options.name));
  return Shape(sizes);
}

Tensor make_tensor(RuntimeContext& torch, const Shape& shape, const WeightOptions& options) {
  return torch.empty(shape, {.dtype = options.dtype, .dp = options.dp, .name = options.name});
}

void set_elements(RuntimeContext& torch, const Tensor& tensor, const std::vector<float>& elements) {
  sim::MemoryStore& memory = simulation_of(torch).machine().memory();
  runtime::store_block(*tensor.storage(), 0, memory.literal(tensor.dtype(), elements));
}

}  // namespace

std::vector<ElementRun> runs_of(const Shape& whole, const WeightPartition& partition) {
  const auto dim = static_cast<std::size_t>(partition.dim);
  const std::int64_t chunks = std::int64_t{partition.world_size} * partition.stride;
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < dim; ++i) outer *= whole[i];
  const std::int64_t row = outer == 0 ? 0 : whole.numel() / outer;
  const std::int64_t chunk = row / chunks;
  std::vector<ElementRun> runs;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t c = partition.rank; c < chunks; c += partition.world_size) {
      runs.push_back({i * row + c * chunk, chunk});
    }
  }
  return runs;
}

InitMethod InitMethod::by_element(std::function<Next(const Shape&)> next, int numbers) {
  InitMethod method;
  method.next_ = std::move(next);
  method.numbers_ = numbers;
  return method;
}

std::vector<float> InitMethod::operator()(const Shape& shape, Generator& generator) const {
  const ElementRun all{0, shape.numel()};
  return (*this)(shape, generator, {&all, 1});
}

std::vector<float> InitMethod::operator()(const Shape& shape, Generator& generator,
                                          std::span<const ElementRun> runs) const {
  std::vector<float> elements;
  if (next_) {
    const Next next = next_(shape);
    for (const ElementRun& run : runs) {
      Generator own = generator;
      own.skip(numbers_ * run.begin);
      for (std::int64_t i = 0; i < run.size; ++i) elements.push_back(next(own));
    }
    generator.skip(numbers_ * shape.numel());
    return elements;
  }
  const std::vector<float> whole = whole_(shape, generator);
  if (static_cast<std::int64_t>(whole.size()) != shape.numel()) {
    wrong_layer(
        fmt::format("init_method gave {} elements for a weight {}, which has {}: it gives "
                    "those of the whole weight, of which each rank takes its part",
                    whole.size(), to_string(shape), shape.numel()));
  }
  for (const ElementRun& run : runs) {
    elements.insert(elements.end(), whole.begin() + run.begin,
                    whole.begin() + run.begin + run.size);
  }
  return elements;
}

InitMethod init_method_normal(double sigma) {
  return InitMethod::by_element([scale = static_cast<float>(sigma)](const Shape&) {
    return [scale](Generator& generator) { return scale * generator.normal(); };
  });
}

InitMethod scaled_init_method_normal(double sigma, int num_layers) {
  return init_method_normal(sigma / std::sqrt(2.0 * num_layers));
}

InitMethod xavier_uniform() {
  return InitMethod::by_element([](const Shape& shape) {
    const auto bound =
        static_cast<float>(std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1])));
    return [bound](Generator& generator) { return bound * (2 * generator.uniform() - 1); };
  });
}

InitMethod init_method_constant(double value) {
  return InitMethod::by_element(
      [element = static_cast<float>(value)](const Shape&) {
        return [element](Generator&) { return element; };
      },
      0);
}

Parameter make_weight(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                      const InitMethod& init_method, const WeightOptions& options) {
  Parameter weight(make_tensor(torch, shape_of_part(whole, partition, options), options));
  if (options.perform_initialization && torch.options().data) {
    set_elements(torch, weight,
                 init_method(whole, default_generator(torch), runs_of(whole, partition)));
  }
  weight.requires_grad_();
  return weight;
}

Parameter make_bias(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                    const WeightOptions& options) {
  Parameter bias(make_tensor(torch, shape_of_part(whole, partition, options), options));
  runtime::fill(*bias.storage(), 0);
  bias.requires_grad_();
  return bias;
}

void refuse_two_placements(std::string_view layer) {
  wrong_layer(
      fmt::format("{}: dp with num_cubes or num_pes: dp says which PEs have the weight", layer));
}

DPPolicy policy_over_pes(Shard shard, int num_cubes, int num_pes) {
  return {.cube = num_cubes > 1 ? shard : Shard::replicate,
          .pe = num_pes > 1 ? shard : Shard::replicate,
          .num_cubes = num_cubes,
          .num_pes = num_pes};
}

}  // namespace kernbench::tp
