// Layers, with torch's names, arguments and initial values.  A layer's parameters have the type and
// placement of `tensors`: by default f32, replicated over all PEs of the device.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/nn/containers.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn {

class LinearOptions {
 public:
  LinearOptions(std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}
  std::int64_t in_features() const { return in_features_; }
  std::int64_t out_features() const { return out_features_; }
  KERNBENCH_OPTION(bool, bias, true);

 private:
  std::int64_t in_features_;
  std::int64_t out_features_;
};

// x weight^T + bias, for weight [out, in].  Both begin uniform within 1 / sqrt(in).
struct LinearImpl : Layer<LinearImpl> {
  LinearImpl(const RuntimeContext& torch, std::int64_t in_features, std::int64_t out_features,
             const TensorOptions& tensors = {})
      : LinearImpl(torch, LinearOptions(in_features, out_features), tensors) {}
  LinearImpl(const RuntimeContext& torch, const LinearOptions& options,
             const TensorOptions& tensors = {});
  Tensor forward(const Tensor& x) const;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;

 private:
  void rebind(Copies& copies) override { copies.rebind(weight, bias); }
};
KERNBENCH_MODULE(Linear);

// Rows of a table [num_embeddings, embedding_dim] by their numbers, which begin normal.
struct EmbeddingImpl : Layer<EmbeddingImpl> {
  EmbeddingImpl(const RuntimeContext& torch, std::int64_t num_embeddings,
                std::int64_t embedding_dim, const TensorOptions& tensors = {});
  Tensor forward(const Tensor& indices) const;
  std::string extra_repr() const override;

  Tensor weight;

 private:
  void rebind(Copies& copies) override { copies.rebind(weight); }
};
KERNBENCH_MODULE(Embedding);

class LayerNormOptions {
 public:
  explicit LayerNormOptions(std::int64_t size) : normalized_shape_{size} {}
  explicit LayerNormOptions(const Shape& shape) : normalized_shape_(shape) {}
  const Shape& normalized_shape() const { return normalized_shape_; }
  KERNBENCH_OPTION(double, eps, 1e-5);
  KERNBENCH_OPTION(bool, elementwise_affine, true);

 private:
  Shape normalized_shape_;
};

// `LayerNorm(torch, 8)`, or `LayerNorm(torch, kb::Shape{4, 8})` for the last two dimensions.
struct LayerNormImpl : Layer<LayerNormImpl> {
  LayerNormImpl(const RuntimeContext& torch, std::int64_t normalized_shape,
                const TensorOptions& tensors = {})
      : LayerNormImpl(torch, LayerNormOptions(normalized_shape), tensors) {}
  LayerNormImpl(const RuntimeContext& torch, const Shape& normalized_shape,
                const TensorOptions& tensors = {})
      : LayerNormImpl(torch, LayerNormOptions(normalized_shape), tensors) {}
  LayerNormImpl(const RuntimeContext& torch, const LayerNormOptions& options,
                const TensorOptions& tensors = {});
  Tensor forward(const Tensor& x) const;
  std::string extra_repr() const override;

  LayerNormOptions options;
  Tensor weight;
  Tensor bias;

 private:
  void rebind(Copies& copies) override { copies.rebind(weight, bias); }
};
KERNBENCH_MODULE(LayerNorm);

// torch.nn.RMSNorm.  Without `eps` it is that of f32.
struct RMSNormImpl : Layer<RMSNormImpl> {
  RMSNormImpl(const RuntimeContext& torch, std::int64_t normalized_shape,
              const TensorOptions& tensors = {}, std::optional<double> eps = {});
  Tensor forward(const Tensor& x) const;
  std::string extra_repr() const override;

  std::int64_t normalized_shape;
  std::optional<double> eps;
  Tensor weight;

 private:
  void rebind(Copies& copies) override { copies.rebind(weight); }
};
KERNBENCH_MODULE(RMSNorm);

// Drops elements in training (functional::dropout).
struct DropoutImpl : Layer<DropoutImpl> {
  explicit DropoutImpl(double probability = 0.5) : p(probability) {}
  Tensor forward(const Tensor& x) const;
  std::string extra_repr() const override;

  double p;
};
KERNBENCH_MODULE(Dropout);

// Activations as modules; `repr` is what extra_repr() says.
template <Tensor (*function)(const Tensor&), Literal class_name, Literal repr = "">
struct ActivationImpl : Layer<ActivationImpl<function, class_name, repr>> {
  Tensor forward(const Tensor& x) const { return function(x); }
  std::string name() const override { return class_name.text; }
  std::string extra_repr() const override { return repr.text; }
};
template <Tensor (*function)(const Tensor&), Literal class_name, Literal repr = "">
using Activation = ModuleHolder<ActivationImpl<function, class_name, repr>>;
// Computes functional::gelu() without an approximation, as GELU does.
Tensor gelu_by_erf(const Tensor& x);
using GELU = Activation<gelu_by_erf, "GELU", "approximate='none'">;
using ReLU = Activation<kernbench::relu, "ReLU">;
using SiLU = Activation<functional::silu, "SiLU">;
using Sigmoid = Activation<kernbench::sigmoid, "Sigmoid">;
using Tanh = Activation<kernbench::tanh, "Tanh">;
// Returns x itself, as Identity does.
Tensor same(const Tensor& x);
using Identity = Activation<same, "Identity">;

// torch.nn.Softmax, LogSoftmax: softmax() and log_softmax() along a dimension, with the shape of x.
// They throw DeviceError KB-F001 for a dimension that there is not, and KB-F003 where it is cut.
struct SoftmaxImpl : Layer<SoftmaxImpl> {
  explicit SoftmaxImpl(int along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.softmax(dim); }
  std::string extra_repr() const override;

  int dim;
};
KERNBENCH_MODULE(Softmax);
struct LogSoftmaxImpl : Layer<LogSoftmaxImpl> {
  explicit LogSoftmaxImpl(int along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.log_softmax(dim); }
  std::string extra_repr() const override;

  int dim;
};
KERNBENCH_MODULE(LogSoftmax);

// All dimensions from start_dim to end_dim as one: by default all but the batch's.
struct FlattenImpl : Layer<FlattenImpl> {
  explicit FlattenImpl(int start = 1, int end = -1) : start_dim(start), end_dim(end) {}
  Tensor forward(const Tensor& x) const { return x.flatten(start_dim, end_dim); }
  std::string extra_repr() const override;

  int start_dim;
  int end_dim;
};
KERNBENCH_MODULE(Flatten);

class MultiheadAttentionOptions {
 public:
  MultiheadAttentionOptions(std::int64_t embed_dim, std::int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads) {}
  std::int64_t embed_dim() const { return embed_dim_; }
  std::int64_t num_heads() const { return num_heads_; }
  KERNBENCH_OPTION(double, dropout, 0);
  KERNBENCH_OPTION(bool, bias, true);
  KERNBENCH_OPTION(bool, batch_first, false);  // [b, s, e] instead of [s, b, e]

 private:
  std::int64_t embed_dim_;
  std::int64_t num_heads_;
};

struct MultiheadAttentionMasks {
  // Added to the scores: -inf where a key is padding [b, t], or not seen [s, t].  Or of bool: true
  // there, the other way round than in scaled_dot_product_attention(), as in torch.
  Tensor key_padding_mask = {};
  Tensor attn_mask = {};
  bool is_causal = false;  // without attn_mask
};

// Projects query [s, b, e], key and value [t, b, e] by in_proj_weight [3 e, e], attends head by
// head, and projects the heads' outputs together: [s, b, e].  Weights of the projections begin as
// xavier_uniform_, those of out_proj as Linear's, biases 0.  Unlike torch's it returns the output
// alone (need_weights=False).
struct MultiheadAttentionImpl : Layer<MultiheadAttentionImpl> {
  // Throws CollectiveError KB-A010, in torch's words, for heads that do not divide embed_dim.
  MultiheadAttentionImpl(const RuntimeContext& torch, const MultiheadAttentionOptions& options,
                         const TensorOptions& tensors = {});
  MultiheadAttentionImpl(const RuntimeContext& torch, std::int64_t embed_dim,
                         std::int64_t num_heads, const TensorOptions& tensors = {})
      : MultiheadAttentionImpl(torch, MultiheadAttentionOptions(embed_dim, num_heads), tensors) {}
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const MultiheadAttentionMasks& masks = {}) const;

  MultiheadAttentionOptions options;
  Tensor in_proj_weight;
  Tensor in_proj_bias;
  Linear out_proj = nullptr;

 private:
  void rebind(Copies& copies) override { copies.rebind(in_proj_weight, in_proj_bias, out_proj); }
  Tensor projected(const Tensor& x, std::int64_t which) const;
};
KERNBENCH_MODULE(MultiheadAttention);

// Rotary positions (Su et al., arXiv:2104.09864), as Llama and Megatron turn halves: element i of
// the first half and of the second one turn by s base^(-2 i / dim) at position s.
struct RotaryEmbeddingImpl : Layer<RotaryEmbeddingImpl> {
  // For x [..., s, dim] with positions from 0 on; s is at most max_seq_len (KB-F001).  Each PE has
  // a copy of the tables.
  RotaryEmbeddingImpl(const RuntimeContext& torch, std::int64_t dim, std::int64_t max_seq_len,
                      const TensorOptions& tensors = {}, double base = 10000);
  // For packed sequences x [tokens, heads, dim], as nn::attention::varlen_attn() takes them, with
  // the position of each token.  The tables lie as `tensors` says, which is as the tokens do.
  RotaryEmbeddingImpl(const RuntimeContext& torch, std::int64_t dim,
                      const std::vector<std::int64_t>& positions, const TensorOptions& tensors = {},
                      double base = 10000);
  Tensor forward(const Tensor& x) const;

  // [max_seq_len, dim] or [tokens, 1, dim]; no buffers, as they follow from the arguments.
  Tensor cosine;
  Tensor sine;

 private:
  void rebind(Copies& copies) override { copies.rebind(cosine, sine); }
};
KERNBENCH_MODULE(RotaryEmbedding);

// Losses as modules: `CrossEntropyLoss criterion; criterion(logits, targets).backward();`.  Their
// functions are runtime/functional's, with the same arguments.

using functional::BCEWithLogitsOptions;
using functional::CrossEntropyOptions;
using functional::Reduction;

// A loss of an input and a target.
template <Tensor (*function)(const Tensor&, const Tensor&, Reduction), Literal class_name>
struct LossImpl : Layer<LossImpl<function, class_name>> {
  explicit LossImpl(Reduction of = Reduction::mean) : reduction(of) {}
  Tensor forward(const Tensor& input, const Tensor& target) const {
    return function(input, target, reduction);
  }
  std::string name() const override { return class_name.text; }

  Reduction reduction;
};
template <Tensor (*function)(const Tensor&, const Tensor&, Reduction), Literal class_name>
using Loss = ModuleHolder<LossImpl<function, class_name>>;
using MSELoss = Loss<functional::mse_loss, "MSELoss">;
using L1Loss = Loss<functional::l1_loss, "L1Loss">;
using BCELoss = Loss<functional::binary_cross_entropy, "BCELoss">;

// `BCEWithLogitsLoss({.pos_weight = w})`
struct BCEWithLogitsLossImpl : Layer<BCEWithLogitsLossImpl> {
  explicit BCEWithLogitsLossImpl(const BCEWithLogitsOptions& of = {}) : options(of) {}
  explicit BCEWithLogitsLossImpl(Reduction reduction) : options{.reduction = reduction} {}
  Tensor forward(const Tensor& input, const Tensor& target) const {
    return functional::binary_cross_entropy_with_logits(input, target, options);
  }

  BCEWithLogitsOptions options;
};
struct BCEWithLogitsLoss : ModuleHolder<BCEWithLogitsLossImpl> {
  using ModuleHolder<BCEWithLogitsLossImpl>::ModuleHolder;
  explicit BCEWithLogitsLoss(const BCEWithLogitsOptions& options = {});
};

struct CrossEntropyLossImpl : Layer<CrossEntropyLossImpl> {
  explicit CrossEntropyLossImpl(const CrossEntropyOptions& of = {}) : options(of) {}
  Tensor forward(const Tensor& logits, const Tensor& targets) const {
    return functional::cross_entropy(logits, targets, options);
  }

  CrossEntropyOptions options;
};
struct CrossEntropyLoss : ModuleHolder<CrossEntropyLossImpl> {
  using ModuleHolder<CrossEntropyLossImpl>::ModuleHolder;
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {});
};

struct NLLLossImpl : Layer<NLLLossImpl> {
  explicit NLLLossImpl(Reduction of = Reduction::mean, std::int64_t ignored = -100,
                       const Tensor& of_classes = {})
      : reduction(of), ignore_index(ignored), weight(of_classes) {}
  Tensor forward(const Tensor& log_probabilities, const Tensor& targets) const {
    return functional::nll_loss(log_probabilities, targets, reduction, ignore_index, weight);
  }

  Reduction reduction;
  std::int64_t ignore_index;
  Tensor weight;
};
KERNBENCH_MODULE(NLLLoss);

}  // namespace kernbench::nn
