// The parameters of layers, and how Megatron cuts them and draws their first elements
// (megatron.core.utils, tensor_parallel.utils, tensor_parallel.layers).

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/nn/module.h"
#include "runtime/torch/runtime_context.h"
#include "tp/parallel_state.h"
#include "tp/random.h"

namespace kernbench::tp {

// Cuts things into equal parts as Megatron-LM does (megatron.core.utils, tensor_parallel.utils).

// numerator / denominator, which must be exact (Megatron's divide()).
// Throws CollectiveError KB-T001 in Megatron's words, "12 is not divisible by 5", followed by
// `what` if given: "12 is not divisible by 5: out_features of 'fc1', the ranks of its group".
std::int64_t divide(std::int64_t numerator, std::int64_t denominator, std::string_view what = {});

// Rows [begin, end) of a vocabulary.
struct VocabRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const VocabRange&, const VocabRange&) = default;
};

// The words of `rank` (VocabUtility.vocab_range_from_per_partition_vocab_size).
VocabRange vocab_range_from_per_partition_vocab_size(std::int64_t per_partition_vocab_size,
                                                     int rank);

// The words of `rank`, from the size of the whole vocabulary
// (VocabUtility.vocab_range_from_global_vocab_size).  Throws like divide().
VocabRange vocab_range_from_global_vocab_size(std::int64_t global_vocab_size, int rank,
                                              int world_size);

// The size of the vocabulary with words added so that ranks can share it: rounded up to a multiple
// of make_vocab_size_divisible_by * world_size (Megatron's _vocab_size_with_padding).
std::int64_t padded_vocab_size(std::int64_t vocab_size, int world_size,
                               std::int64_t make_vocab_size_divisible_by = 128);

// Splits x into equal parts along its last dimension (Megatron's split_tensor_along_last_dim), with
// autograd.  Throws CollectiveError KB-T001 if the dimension is not divisible.
std::vector<Tensor> split_tensor_along_last_dim(const Tensor& x, int num_partitions);

// This rank's part of the elements of x, row by row, and the inverse: all parts as a flat tensor
// (Megatron's split_tensor_into_1d_equal_chunks and gather_split_1d_tensor).
Tensor split_tensor_into_1d_equal_chunks(RuntimeContext& torch, const Tensor& x,
                                         const CallGroup& group);
Tensor gather_split_1d_tensor(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

// The attributes that Megatron sets on a parameter.
struct TensorModelParallelAttributes {
  bool tensor_model_parallel = false;  // ranks have different parts of it
  int partition_dim = -1;              // the dimension that is cut; -1: none
  int partition_stride = 1;            // chunks of each rank's part
  friend bool operator==(const TensorModelParallelAttributes&,
                         const TensorModelParallelAttributes&) = default;
};

// A parameter of a layer: a handle, like a Tensor.  The attributes belong to the handle, so
// changing them on a copy (`for (Parameter p : layer.parameters())` makes copies) changes no other
// handle.
class Parameter : public Tensor {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& tensor) : Tensor(tensor) {}

  std::optional<TensorModelParallelAttributes> attributes = std::nullopt;  // none: not set
  // True if its gradient sums over this rank's tokens alone, until
  // allreduce_sequence_parallel_gradients().
  bool sequence_parallel = false;
  bool shared = false;  // another pipeline stage has it too, and counts it
};

// Sets the attributes.  Throws CollectiveError KB-T006 if they are set already (Megatron asserts
// that they are not).
void set_tensor_model_parallel_attributes(Parameter& parameter, bool is_parallel, int dim,
                                          int stride);
// Marks the parameter as not parallel, unless its attributes are set.
void set_defaults_if_not_set_tensor_model_parallel_attributes(Parameter& parameter);
// Copies the attributes that `from` has.
void copy_tensor_model_parallel_attributes(Parameter& to, const Parameter& from);

// True if a sum over all ranks' parameters (e.g. of norms) must count this one: a replicated
// parameter counts only on the first rank of the tensor model parallel group.
bool param_is_not_tensor_parallel_duplicate(RuntimeContext& torch, const Parameter& parameter);
// The same, and another pipeline stage does not count it.
bool counts_in_norms(RuntimeContext& torch, const Parameter& parameter);

// A module whose parameters have attributes: a base beside nn::Module.
class ParallelLayer {
 public:
  virtual ~ParallelLayer() = default;
  // The module's own parameters, with their attributes.
  virtual std::vector<Parameter> parameters() const = 0;
};

// A module whose input is a rank's part of the sequence, so that its parameters' gradients sum over
// this rank's tokens alone: `struct Norm : nn::ModuleHolder<tp::SequenceParallel<
// nn::LayerNormImpl>>`.
template <std::derived_from<nn::Module> Impl>
class SequenceParallel : public Impl, public ParallelLayer {
 public:
  using Impl::Impl;
  std::vector<Parameter> parameters() const override {
    std::vector<Parameter> own;
    for (const Tensor& tensor : nn::Module::parameters(false)) {
      own.emplace_back(tensor).sequence_parallel = true;
    }
    return own;
  }
};

// All parameters of a module, as its parameters() lists them, with the attributes that the layers
// in it give them; of a module that fully_shard has cut, this rank's shards with those of the whole
// parameters.
std::vector<Parameter> parallel_parameters(nn::Module& module);

// Initialization of the layers' weights (megatron.core.utils, and layers with
// use_cpu_initialization).

// A contiguous stretch of a weight's elements, row by row.
struct ElementRun {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// Draws the initial elements of a weight from a generator.
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
// bit (ADR-0133).  It takes no simulated time.  Throws CollectiveError KB-T001 if the dimension
// cannot be cut so, KB-T006 if the method gives another number of elements than the whole has.
Parameter make_weight(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                      const InitMethod& init_method, const WeightOptions& options);

// Makes the parameter with all elements 0, the initial value of biases; nothing is drawn.
Parameter make_bias(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                    const WeightOptions& options);

// The placement of [rows, columns] cut along one dimension over the first PEs of a device
// (ADR-0026).
DPPolicy policy_over_pes(Shard shard, int num_cubes, int num_pes);

// Throws CollectiveError KB-T006: a layer has a placement, and PEs besides.
[[noreturn]] void refuse_two_placements(std::string_view layer);

// The placement of a layer's part of a matrix: its own `dp`, or that of its PEs.  Throws KB-T006 if
// it has both.
template <class Options>
DPPolicy policy_of_part(const Options& options, Shard shard) {
  const bool has_pes = options.num_cubes != 1 || options.num_pes != 1;
  if (options.dp && has_pes) refuse_two_placements(options.name);
  return options.dp.value_or(policy_over_pes(shard, options.num_cubes, options.num_pes));
}

}  // namespace kernbench::tp
