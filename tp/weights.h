// Initialization of the layers' weights (megatron.core.utils, and layers with
// use_cpu_initialization).

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/function.h"
#include "tp/parameter.h"
#include "tp/random.h"

namespace kernbench::tp {

// A contiguous stretch of a weight's elements, row by row.
struct ElementRun {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// How the initial elements of a weight are drawn from a generator.
class InitMethod {
 public:
  // Draws all elements of a whole weight of this shape, row by row, whatever part of it a rank has.
  using Whole = std::function<std::vector<float>(const Shape& shape, Generator& generator)>;
  // Draws the next element, from one number of the generator or from none.
  using Next = std::function<float(Generator& generator)>;

  // A callable as Whole says.
  template <class Function>
  requires std::is_invocable_r_v < std::vector<float>, Function,
  const Shape&, Generator& > InitMethod(Function whole)
      : whole_(std::move(whole)) {}  // NOLINT(google-explicit-constructor)
  // Draws each element independently, so that a rank draws only its own.  `numbers`: how many
  // numbers of the generator an element takes, 0 or 1.
  static InitMethod by_element(std::function<Next(const Shape& shape)> next, int numbers = 1);

  // The elements of a whole weight of this shape.  Throws CollectiveError KB-T006 if a Whole gives
  // another number of them.
  std::vector<float> operator()(const Shape& shape, Generator& generator) const;
  // The elements of the runs alone; the generator advances as if all were drawn.
  std::vector<float> operator()(const Shape& shape, Generator& generator,
                                std::span<const ElementRun> runs) const;

 private:
  InitMethod() = default;

  Whole whole_;
  std::function<Next(const Shape&)> next_;
  int numbers_ = 1;
};

// Normal, with mean 0 and standard deviation sigma.
InitMethod init_method_normal(double sigma);
// Normal, with standard deviation sigma / sqrt(2 num_layers): for layers that add to the residual
// stream.
InitMethod scaled_init_method_normal(double sigma, int num_layers);
// Uniform between -bound and bound with bound = sqrt(6 / (rows + columns)), for a matrix.
InitMethod xavier_uniform();
// The same number for all elements.
InitMethod init_method_constant(double value);

// A part of a whole weight: its `partition_dim` (0 or 1 of a matrix, 0 of a vector) is cut in
// world_size * stride chunks, of which rank r has r, r + world_size, ...
struct WeightPartition {
  int dim = 0;
  int rank = 0;
  int world_size = 1;
  int stride = 1;
};

// The runs of elements that make up the rank's chunks of a weight of that shape, in order.
std::vector<ElementRun> runs_of(const Shape& whole, const WeightPartition& partition);

// Options for making a weight.
struct WeightOptions {
  DType dtype = DType::f16;
  DPPolicy dp = DPPolicy::on_one_pe();
  std::string name = {};
  std::string_view cut_option = {};    // the layer's option for the size that is cut
  bool perform_initialization = true;  // false: NaN until written
};

// The rank's part of a weight of shape `whole`, which requires a gradient.  Its elements are those
// that the rank's default generator (random.h) draws for these places of the whole weight, so if
// all ranks' generators are equal, the whole weight is the same for any number of ranks, bit for
// bit (ADR-0134).  It takes no simulated time.  Throws CollectiveError KB-T001 if the dimension
// cannot be cut so, KB-T006 if the method gives another number of elements than the whole has.
Parameter make_weight(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                      const InitMethod& init_method, const WeightOptions& options);

// Makes the parameter with all elements 0, the initial value of biases; nothing is drawn.
Parameter make_bias(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                    const WeightOptions& options);

// The placement of [rows, columns] cut along one dimension over the first PEs of a device
// (ADR-0026).
DPPolicy policy_over_pes(Shard shard, int num_cubes, int num_pes);

}  // namespace kernbench::tp
