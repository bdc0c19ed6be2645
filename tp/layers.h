// megatron.core.tensor_parallel.layers.

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/nn/module.h"
#include "tp/mappings.h"
#include "tp/parallel_state.h"
#include "tp/parameter.h"

namespace kernbench::tp {

// The blocks of a rank's part of a weight [in, out], along the dimension that ranks share: each is
// computed by itself (ADR-0133).
struct WeightBlocks {
  enum class Cut : std::uint8_t { rows, columns };

  Cut cut = Cut::rows;
  std::int64_t count = 1;
};

// The matrix product on which both linear layers are built.
struct LinearCommunication {
  CallGroup group = distributed::ProcessGroup();
  bool allreduce_dgrad = false;    // the gradient of the input is a sum over ranks
  bool sequence_parallel = false;  // each rank has a part of the input's first dimension
  // True if the communication of the input's gradient overlaps the product for the weight's
  // gradient (else it is waited for first).
  bool overlap = true;
  // At level Reproducible::pairs a sum over ranks has the same bits for any number of them only if
  // there are as many blocks in all.
  WeightBlocks blocks = {};
};

// y = x w + bias, for x [..., in], w [in, out] and a bias [out] or none (undefined).
//
// sequence_parallel: x [s / W, ..., in], y [s, ..., out].
// Communication, forward:   sequence_parallel: all_gather(x)
//                backward:  dy w^T; all_reduce of it, beside x^T dy
//                           sequence_parallel: all_gather(x), beside dy w^T; then reduce_scatter of
//                           that, beside x^T dy.  The gathered x is not kept from forward.
// Only gradients that are needed are computed: with a frozen weight, the input's alone
// (linear_with_frozen_weight).  Tensors that no gradient needs are not kept.  Throws DeviceError
// KB-M001, KB-M019 or KB-M013 for a tensor that is undefined, on the host, or of another context.
Tensor linear_with_grad_accumulation_and_async_allreduce(RuntimeContext& torch, const Tensor& x,
                                                         const Tensor& weight, const Tensor& bias,
                                                         const LinearCommunication& communication);

struct ColumnParallelLinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;   // of all ranks together
  bool bias = true;                // initialized to 0
  bool gather_output = false;      // all ranks get the whole output
  bool skip_bias_add = false;      // forward_with_bias() returns the bias, to be added elsewhere
  bool sequence_parallel = false;  // each rank has a part of the input's first dimension
  // True if the communication of the input's gradient overlaps the product for the weight's
  // gradient.
  bool async_tensor_model_parallel_allreduce = true;
  bool disable_grad_reduce = false;  // the input's gradient is not summed over ranks
  // The layer has no weight: forward() takes one [in, out / W], e.g. an embedding's.
  bool skip_weight_param_allocation = false;
  int stride = 1;  // chunks in a rank's part, for a weight that joins several, e.g. q, k and v
  InitMethod init_method = init_method_normal(0.02);
  bool perform_initialization = true;
  // Without one it is f16, and forward() casts its input to it and takes any that has whole rows on
  // each PE that holds it; with one, an input of another type or on other PEs is refused
  // (ADR-0133).
  std::optional<DType> dtype = std::nullopt;
  // The PEs of the device that share the rank's part, column-wise: the first num_pes PEs of the
  // first num_cubes cubes.  The input is replicated on them (ADR-0133).
  int num_cubes = 1;
  int num_pes = 1;
  // Another placement than num_cubes and num_pes give: DPPolicy::shared() lays the rank's part once
  // over all PEs, for inputs whose rows they share.
  std::optional<DPPolicy> dp = std::nullopt;
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
  std::string name = "column_parallel_linear";
};

// y = x A + b, with the columns of A cut over the W ranks of a group: A = [A_1 ... A_W].
//
//   x       [..., in]          the same on all ranks; sequence_parallel: [s / W, ..., in]
//   weight  [in, out / W]      this rank's columns (Megatron's transposed)
//   bias    [out / W]
//   y       [..., out / W]     x A_r + b_r; gather_output: [..., out]
//
// Communication: forward none, backward one all_reduce of the gradient of x, overlapping the
// product for the weight's gradient.  sequence_parallel: forward one all_gather of x, backward
// another one and a reduce_scatter of its gradient.  gather_output: one all_gather of y.
class ColumnParallelLinear : public nn::Module, public ParallelLayer {
 public:
  // Called by a rank.  Throws CollectiveError KB-T001 if the group does not divide out_features,
  // KB-T006 for options that do not go together, KB-T002 without groups.
  ColumnParallelLinear(RuntimeContext& torch, ColumnParallelLinearOptions options);
  ColumnParallelLinear(RuntimeContext& torch, std::int64_t in_features, std::int64_t out_features)
      : ColumnParallelLinear(torch, {.in_features = in_features, .out_features = out_features}) {}
  template <nn::NoContext First, class... Rest>
  requires(!std::derived_from<std::remove_cvref_t<First>, ColumnParallelLinear> &&
           nn::ContextDemand<First>::kIsMet) explicit ColumnParallelLinear(First&&,
                                                                           const Rest&...) = delete;
  using Options = ColumnParallelLinearOptions;
  explicit ColumnParallelLinear(const Options&) = delete;  // the context comes first

  // y.  `given_weight` is required with skip_weight_param_allocation (KB-T006, in Megatron's words,
  // if it is missing or has another shape); `gather_output` overrides the option.
  Tensor forward(const Tensor& x, const Tensor& given_weight = {},
                 std::optional<bool> gather_output = std::nullopt,
                 Location location = Location::current()) const;
  // forward(), with the hooks of the module around it, such as those of fully_shard.
  Tensor operator()(const Tensor& x, const Tensor& given_weight = {},
                    std::optional<bool> gather_output = std::nullopt,
                    Location location = Location::current()) const {
    return call(x, [&](const Tensor& input) {
      return forward(input, given_weight, gather_output, location);
    });
  }
  // y, and with skip_bias_add the bias, which is then not added to y: this rank's part, even if y
  // is gathered.
  std::pair<Tensor, Tensor> forward_with_bias(const Tensor& x, const Tensor& given_weight = {},
                                              std::optional<bool> gather_output = std::nullopt,
                                              Location location = Location::current()) const;

  const ColumnParallelLinearOptions& options() const { return options_; }
  // With Megatron's attributes; of a Module they are plain tensors.
  std::vector<Parameter> parameters() const override;

  Parameter weight;  // undefined if forward() takes one
  Parameter bias;    // undefined without bias

 private:
  Tensor checked_weight(const Tensor& given) const;

  RuntimeContext& torch_;
  const ColumnParallelLinearOptions options_;
  const distributed::ProcessGroup group_;
  const int world_size_;
  const std::int64_t blocks_;
};

struct RowParallelLinearOptions {
  std::int64_t in_features = 0;  // of all ranks together
  std::int64_t out_features = 0;
  bool bias = true;                // initialized to 0
  bool input_is_parallel = true;   // x is this rank's part; else the whole x
  bool skip_bias_add = false;      // forward_with_bias() returns the bias, to be added elsewhere
  bool sequence_parallel = false;  // each rank gets a part of the output's first dimension
  int stride = 1;
  InitMethod init_method = init_method_normal(0.02);
  bool perform_initialization = true;
  // As ColumnParallelLinear's.  A weight that several PEs share takes its own columns' PEs alone.
  std::optional<DType> dtype = std::nullopt;
  // The PEs of the device that share the rank's part, row-wise: the first num_pes PEs of the first
  // num_cubes cubes.  The input is cut column-wise over them, like a ColumnParallelLinear's output
  // (ADR-0133); with input_is_parallel = false it is replicated.
  int num_cubes = 1;
  int num_pes = 1;
  std::optional<DPPolicy> dp = std::nullopt;  // as ColumnParallelLinear's
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
  std::string name = "row_parallel_linear";
};

// y = x A + b, with the rows of A cut over the W ranks of a group, and the columns of x likewise:
// x A is the sum of x_r A_r.
//
//   x       [..., in / W]   this rank's columns; input_is_parallel = false: [..., in], all of them
//   weight  [in / W, out]   this rank's rows (Megatron's transposed)
//   bias    [out]           the same on all ranks; added once, to the sum
//   y       [..., out]      the same on all ranks; sequence_parallel: [s / W, ..., out]
//
// Communication: forward one all_reduce of y, backward none.  sequence_parallel: forward one
// reduce_scatter of y, backward one all_gather of its gradient; then the bias' gradient is a sum
// over this rank's tokens, for allreduce_sequence_parallel_gradients().
class RowParallelLinear : public nn::Module, public ParallelLayer {
 public:
  // Called by a rank.  Throws CollectiveError KB-T001 if the group does not divide in_features,
  // KB-T006 for options that do not go together, KB-T002 without groups.
  RowParallelLinear(RuntimeContext& torch, RowParallelLinearOptions options);
  RowParallelLinear(RuntimeContext& torch, std::int64_t in_features, std::int64_t out_features)
      : RowParallelLinear(torch, {.in_features = in_features, .out_features = out_features}) {}
  template <nn::NoContext First, class... Rest>
  requires(!std::derived_from<std::remove_cvref_t<First>, RowParallelLinear> &&
           nn::ContextDemand<First>::kIsMet) explicit RowParallelLinear(First&&,
                                                                        const Rest&...) = delete;
  using Options = RowParallelLinearOptions;
  explicit RowParallelLinear(const Options&) = delete;  // the context comes first

  // y.
  Tensor forward(const Tensor& x, Location location = Location::current()) const;
  // forward(), with the hooks of the module around it, such as those of fully_shard.
  Tensor operator()(const Tensor& x, Location location = Location::current()) const {
    return call(x, [&](const Tensor& input) { return forward(input, location); });
  }
  // y, and with skip_bias_add the bias, which is then not added to y.
  std::pair<Tensor, Tensor> forward_with_bias(const Tensor& x,
                                              Location location = Location::current()) const;

  const RowParallelLinearOptions& options() const { return options_; }
  // With Megatron's attributes; of a Module they are plain tensors.
  std::vector<Parameter> parameters() const override;

  Parameter weight;
  Parameter bias;  // undefined without bias

 private:
  Tensor own_columns(const Tensor& x, Location location) const;

  RuntimeContext& torch_;
  const RowParallelLinearOptions options_;
  const distributed::ProcessGroup group_;
  const bool is_sequence_parallel_;
  const std::int64_t blocks_;
};

// Sums the gradients of the parameters with Parameter::sequence_parallel over the ranks: one
// all_reduce for each that has a gradient.  Call it once per step, after its last backward
// (_allreduce_non_tensor_model_parallel_grads of megatron's finalize_model_grads).  `group`: by
// default the caller's tensor model parallel group.
void allreduce_sequence_parallel_gradients(RuntimeContext& torch,
                                           const std::vector<Parameter>& parameters,
                                           const OptionalCallGroup& group = Location::current());

struct VocabParallelEmbeddingOptions {
  std::int64_t num_embeddings = 0;  // of all ranks together; padded_vocab_size() divides
  std::int64_t embedding_dim = 0;
  // The output is transposed to [s, b, h], and each rank gets a part of s, or of packed tokens.
  bool reduce_scatter_embeddings = false;
  InitMethod init_method = init_method_normal(0.02);
  bool perform_initialization = true;
  // Without one it is f16, and ids may be on other PEs, as ColumnParallelLinear's input may.
  std::optional<DType> dtype = std::nullopt;
  // The PEs of the device that share the rank's words: the first num_pes PEs of the first num_cubes
  // cubes.  The ids are replicated on them.
  int num_cubes = 1;
  int num_pes = 1;
  std::optional<DPPolicy> dp = std::nullopt;  // as ColumnParallelLinear's
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
  std::string name = "vocab_parallel_embedding";
};

// Looks up rows of a table of words, which is cut over the W ranks of a group.  A rank looks up
// words of other ranks as zeros, so that the sum over ranks is the row.
//
//   ids     [b, s]            numbers of words in i64, i32 or f32, the same on all ranks
//   weight  [words / W, h]    this rank's words, vocab_range()
//   output  [b, s, h]         the same on all ranks
//           [s / W, b, h]     with reduce_scatter_embeddings: transposed, of one rank too
//
// Packed sequences have no batch: ids [t] become [t, h], or [t / W, h], which are not transposed.
//
// Communication: forward one all_reduce of the output, backward none; with
// reduce_scatter_embeddings forward one reduce_scatter, backward one all_gather.
class VocabParallelEmbedding : public nn::Module, public ParallelLayer {
 public:
  // Called by a rank.  Throws CollectiveError KB-T001 if the group does not divide num_embeddings,
  // KB-T002 without groups.
  VocabParallelEmbedding(RuntimeContext& torch, VocabParallelEmbeddingOptions options);
  template <nn::NoContext First, class... Rest>
  requires(!std::derived_from<std::remove_cvref_t<First>, VocabParallelEmbedding> &&
           nn::ContextDemand<First>::kIsMet) explicit VocabParallelEmbedding(First&&,
                                                                             const Rest&...) =
      delete;
  using Options = VocabParallelEmbeddingOptions;
  explicit VocabParallelEmbedding(const Options&) = delete;  // the context comes first

  Tensor forward(const Tensor& ids, Location location = Location::current()) const;
  // forward(), with the hooks of the module around it, such as those of fully_shard.
  Tensor operator()(const Tensor& ids, Location location = Location::current()) const {
    return call(ids, [&](const Tensor& input) { return forward(input, location); });
  }

  const VocabParallelEmbeddingOptions& options() const { return options_; }
  const VocabRange& vocab_range() const { return words_; }
  // With Megatron's attributes; of a Module they are plain tensors.
  std::vector<Parameter> parameters() const override { return {weight}; }

  Parameter weight;

 private:
  RuntimeContext& torch_;
  const VocabParallelEmbeddingOptions options_;
  const distributed::ProcessGroup group_;
  const VocabRange words_;
};

// megatron.core.tensor_parallel.vocab_parallel_cross_entropy.

struct VocabParallelCrossEntropyOptions {
  double label_smoothing = 0;  // in [0, 1): spread evenly over the other words
  // The size over all ranks together.  If it is given, logits of another size than this rank's part
  // are refused: for gathered logits the loss would silently be log(W) too large.
  std::optional<std::int64_t> vocab_size = std::nullopt;
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
};

// The loss of each token, of logits whose vocabulary is cut over the W ranks of a group:
//   loss = log(sum(exp(x))) - (1 - s) x[target] - s mean(x)
// with x over the whole vocabulary V and s = label_smoothing V / (V - 1), as Megatron defines it.
// (Megatron itself takes V and the mean of each rank's part, so that its ranks differ: ADR-0133.)
//
//   logits  [..., V / W]  this rank's words [r V / W, (r + 1) V / W); not modified
//   target  [...]         numbers of words in f32, the same on all ranks
//   loss    [...]         f32, the same on all ranks
//
// A target that is no word contributes 0 instead of x[target] - max(x), as in Megatron: without
// smoothing its loss is log(sum(exp(x - max(x)))).  Callers mask such targets.
//
// Communication: forward three all_reduces of [...]: of the maxima, of x[target] plus the term of
// smoothing, and of the sums of exponentials.  Backward none.
//
// Inside the device, all of a token's logits are on one PE and must fit its scratch; tokens may be
// cut along the first dimension.  Throws CollectiveError KB-T006 for shapes, types or a vocabulary
// that do not fit, DeviceError KB-F003 for other placements.
Tensor vocab_parallel_cross_entropy(RuntimeContext& torch, const Tensor& logits,
                                    const Tensor& target,
                                    const VocabParallelCrossEntropyOptions& options = {},
                                    Location location = Location::current());

}  // namespace kernbench::tp
