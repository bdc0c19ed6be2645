// Layers, with torch's names, arguments and initial values.  A layer's parameters have the type and
// placement of `tensors`: by default f32, replicated over all PEs of the device.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/function.h"
#include "sim_engine/base/memory.h"

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
struct LinearImpl : Module {
  LinearImpl(const RuntimeContext& torch, std::int64_t in_features, std::int64_t out_features,
             const TensorOptions& tensors = {})
      : LinearImpl(torch, LinearOptions(in_features, out_features), tensors) {}
  LinearImpl(const RuntimeContext& torch, const LinearOptions& options,
             const TensorOptions& tensors = {});
  Tensor forward(const Tensor& x) const;

  Tensor weight;
  Tensor bias;
};
KERNBENCH_MODULE(Linear);

// Rows of a table [num_embeddings, embedding_dim] by their numbers, which begin normal.
struct EmbeddingImpl : Module {
  EmbeddingImpl(const RuntimeContext& torch, std::int64_t num_embeddings,
                std::int64_t embedding_dim, const TensorOptions& tensors = {});
  Tensor forward(const Tensor& indices) const;

  Tensor weight;
};
KERNBENCH_MODULE(Embedding);

class LayerNormOptions {
 public:
  explicit LayerNormOptions(std::int64_t normalized_shape) : normalized_shape_(normalized_shape) {}
  std::int64_t normalized_shape() const { return normalized_shape_; }
  KERNBENCH_OPTION(double, eps, 1e-5);
  KERNBENCH_OPTION(bool, elementwise_affine, true);

 private:
  std::int64_t normalized_shape_;
};

struct LayerNormImpl : Module {
  LayerNormImpl(const RuntimeContext& torch, std::int64_t normalized_shape,
                const TensorOptions& tensors = {})
      : LayerNormImpl(torch, LayerNormOptions(normalized_shape), tensors) {}
  LayerNormImpl(const RuntimeContext& torch, const LayerNormOptions& options,
                const TensorOptions& tensors = {});
  Tensor forward(const Tensor& x) const;

  LayerNormOptions options;
  Tensor weight;
  Tensor bias;
};
KERNBENCH_MODULE(LayerNorm);

// torch.nn.RMSNorm.  Without `eps` it is that of f32.
struct RMSNormImpl : Module {
  RMSNormImpl(const RuntimeContext& torch, std::int64_t normalized_shape,
              const TensorOptions& tensors = {}, std::optional<double> eps = {});
  Tensor forward(const Tensor& x) const;

  std::int64_t normalized_shape;
  std::optional<double> eps;
  Tensor weight;
};
KERNBENCH_MODULE(RMSNorm);

// Drops elements in training (functional::dropout).
struct DropoutImpl : Module {
  explicit DropoutImpl(double probability = 0.5) : p(probability) {}
  Tensor forward(const Tensor& x) const;

  double p;
};
struct Dropout : ModuleHolder<DropoutImpl> {
  using ModuleHolder<DropoutImpl>::ModuleHolder;
  Dropout();
};

// Activations as modules.
template <Tensor (*function)(const Tensor&)>
struct ActivationImpl : Module {
  Tensor forward(const Tensor& x) const { return function(x); }
};
template <Tensor (*function)(const Tensor&)>
struct Activation : ModuleHolder<ActivationImpl<function>> {
  using ModuleHolder<ActivationImpl<function>>::ModuleHolder;
  Activation() : Activation(std::make_shared<ActivationImpl<function>>()) {}
};
// Computes functional::gelu() without an approximation, as GELU does.
Tensor gelu_by_erf(const Tensor& x);
using GELU = Activation<gelu_by_erf>;
using ReLU = Activation<kernbench::relu>;
using SiLU = Activation<functional::silu>;
using Sigmoid = Activation<kernbench::sigmoid>;
using Tanh = Activation<kernbench::tanh>;
// Returns x itself, as Identity does.
Tensor same(const Tensor& x);
using Identity = Activation<same>;

// torch.nn.Softmax, LogSoftmax: softmax() and log_softmax() along a dimension, with the shape of x.
// They throw DeviceError KB-F001 for a dimension that there is not, and KB-F003 where it is cut.
struct SoftmaxImpl : Module {
  explicit SoftmaxImpl(int along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.softmax(dim); }

  int dim;
};
KERNBENCH_MODULE(Softmax);
struct LogSoftmaxImpl : Module {
  explicit LogSoftmaxImpl(int along) : dim(along) {}
  Tensor forward(const Tensor& x) const { return x.log_softmax(dim); }

  int dim;
};
KERNBENCH_MODULE(LogSoftmax);

// All dimensions from start_dim to end_dim as one: by default all but the batch's.
struct FlattenImpl : Module {
  explicit FlattenImpl(int start = 1, int end = -1) : start_dim(start), end_dim(end) {}
  Tensor forward(const Tensor& x) const { return x.flatten(start_dim, end_dim); }

  int start_dim;
  int end_dim;
};
struct Flatten : ModuleHolder<FlattenImpl> {
  using ModuleHolder<FlattenImpl>::ModuleHolder;
  Flatten();
};

// Modules one after the other: `Sequential(Linear(torch, 8, 16), ReLU(), Linear(torch, 16, 4))`.
// They are named "0", "1", ...
class SequentialImpl : public Module {
 public:
  SequentialImpl() = default;
  template <class First, class... Rest>
  requires std::derived_from<std::remove_cvref_t<First>, HolderBase>
  explicit SequentialImpl(First&& first, Rest&&... rest) {
    push_back(std::forward<First>(first));
    (push_back(std::forward<Rest>(rest)), ...);
  }

  template <class Holder>
  void push_back(const Holder& module) {
    register_module(std::to_string(forwards_.size()), module);
    forwards_.push_back([module](const Tensor& x) { return module(x); });
  }
  Tensor forward(const Tensor& x) const;
  std::size_t size() const { return forwards_.size(); }

 private:
  std::vector<std::function<Tensor(const Tensor&)>> forwards_;
};
KERNBENCH_MODULE(Sequential);

// A list of modules of one kind, whose parameters are those of its owner.  Named "0", "1", ...
template <class Holder>
class ModuleListImpl : public Module {
 public:
  void push_back(const Holder& module) {
    register_module(std::to_string(modules_.size()), module);
    modules_.push_back(module);
  }
  std::size_t size() const { return modules_.size(); }
  const Holder& operator[](std::size_t i) const { return modules_.at(i); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  std::vector<Holder> modules_;
};
template <class Holder>
struct ModuleList : ModuleHolder<ModuleListImpl<Holder>> {
  using ModuleHolder<ModuleListImpl<Holder>>::ModuleHolder;
  ModuleList() : ModuleList(std::make_shared<ModuleListImpl<Holder>>()) {}
};

// Modules of one kind by their names, in the order of insertion.
template <class Holder>
class ModuleDictImpl : public Module {
 public:
  // Throws CollectiveError KB-A010 for a name that a module cannot have.
  void insert(const std::string& name, const Holder& module) {
    register_module(name, module);
    modules_.insert(name, module);
  }
  bool contains(std::string_view name) const { return modules_.contains(name); }
  // Throws CollectiveError KB-A010 if there is none of this name.
  const Holder& operator[](std::string_view name) const { return modules_[name]; }
  std::vector<std::string> keys() const { return modules_.keys(); }
  std::vector<Holder> values() const { return modules_.values(); }
  std::size_t size() const { return modules_.size(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  OrderedDict<Holder> modules_;
};
template <class Holder>
struct ModuleDict : ModuleHolder<ModuleDictImpl<Holder>> {
  using ModuleHolder<ModuleDictImpl<Holder>>::ModuleHolder;
  ModuleDict() : ModuleDict(std::make_shared<ModuleDictImpl<Holder>>()) {}
};

}  // namespace kernbench::nn

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn {

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
struct MultiheadAttentionImpl : Module {
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
  Tensor projected(const Tensor& x, std::int64_t which) const;
};
KERNBENCH_MODULE(MultiheadAttention);

// Rotary positions (Su et al., arXiv:2104.09864), as Llama and Megatron turn halves: element i of
// the first half and of the second one turn by s base^(-2 i / dim) at position s.
struct RotaryEmbeddingImpl : Module {
  RotaryEmbeddingImpl(const RuntimeContext& torch, std::int64_t dim, std::int64_t max_seq_len,
                      const TensorOptions& tensors = {}, double base = 10000);
  // x [..., s, dim], for positions from 0 on; s is at most max_seq_len (KB-F001).
  Tensor forward(const Tensor& x) const;

  Tensor cosine;  // [max_seq_len, dim]; no buffers, as they follow from the arguments
  Tensor sine;
};
KERNBENCH_MODULE(RotaryEmbedding);

// Losses as modules: `CrossEntropyLoss criterion; criterion(logits, targets).backward();`.  Their
// functions are runtime/functional's, with the same arguments.

using functional::CrossEntropyOptions;
using functional::Reduction;

// A loss of an input and a target.
template <Tensor (*function)(const Tensor&, const Tensor&, Reduction)>
struct LossImpl : Module {
  explicit LossImpl(Reduction of = Reduction::mean) : reduction(of) {}
  Tensor forward(const Tensor& input, const Tensor& target) const {
    return function(input, target, reduction);
  }

  Reduction reduction;
};
template <Tensor (*function)(const Tensor&, const Tensor&, Reduction)>
struct Loss : ModuleHolder<LossImpl<function>> {
  using ModuleHolder<LossImpl<function>>::ModuleHolder;
  Loss() : Loss(std::make_shared<LossImpl<function>>()) {}
};
using MSELoss = Loss<functional::mse_loss>;
using L1Loss = Loss<functional::l1_loss>;
using BCEWithLogitsLoss = Loss<functional::binary_cross_entropy_with_logits>;

struct CrossEntropyLossImpl : Module {
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

struct NLLLossImpl : Module {
  explicit NLLLossImpl(Reduction of = Reduction::mean, std::int64_t ignored = -100)
      : reduction(of), ignore_index(ignored) {}
  Tensor forward(const Tensor& log_probabilities, const Tensor& targets) const {
    return functional::nll_loss(log_probabilities, targets, reduction, ignore_index);
  }

  Reduction reduction;
  std::int64_t ignore_index;
};
struct NLLLoss : ModuleHolder<NLLLossImpl> {
  using ModuleHolder<NLLLossImpl>::ModuleHolder;
  NLLLoss();
};

}  // namespace kernbench::nn
