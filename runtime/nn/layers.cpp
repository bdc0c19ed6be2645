#include "runtime/nn/layers.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/functional/functional.h"
#include "runtime/nn/repr.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::nn {

namespace {

TensorOptions named(TensorOptions options, std::string_view name) {
  options.name = options.name.empty() ? std::string(name) : options.name + "." + std::string(name);
  return options;
}

// The placement of a vector along a matrix's first dimension.
TensorOptions of_rows(TensorOptions options) {
  const auto level = [](Shard shard) {
    return shard == Shard::row_wise ? Shard::row_wise : Shard::replicate;
  };
  options.dp.cube = level(options.dp.cube);
  options.dp.pe = level(options.dp.pe);
  return options;
}

}  // namespace

LinearImpl::LinearImpl(const RuntimeContext& torch, const LinearOptions& options,
                       const TensorOptions& tensors) {
  const double bound = 1 / std::sqrt(static_cast<double>(options.in_features()));
  const Tensor w =
      torch.empty({options.out_features(), options.in_features()}, named(tensors, "weight"));
  weight = register_parameter("weight", w.uniform_(-bound, bound));
  if (!options.bias()) return;
  const Tensor b = torch.empty({options.out_features()}, of_rows(named(tensors, "bias")));
  bias = register_parameter("bias", b.uniform_(-bound, bound));
}

Tensor LinearImpl::forward(const Tensor& x) const {
  return functional::linear(x, weight, bias);
}

EmbeddingImpl::EmbeddingImpl(const RuntimeContext& torch, std::int64_t num_embeddings,
                             std::int64_t embedding_dim, const TensorOptions& tensors) {
  weight = register_parameter(
      "weight", torch.randn({num_embeddings, embedding_dim}, named(tensors, "weight")));
}

Tensor EmbeddingImpl::forward(const Tensor& indices) const {
  return functional::embedding(indices, weight);
}

LayerNormImpl::LayerNormImpl(const RuntimeContext& torch, const LayerNormOptions& of,
                             const TensorOptions& tensors)
    : options(of) {
  if (!options.elementwise_affine()) return;
  const Shape& shape = options.normalized_shape();
  weight = register_parameter("weight", torch.ones(shape, named(tensors, "weight")));
  bias = register_parameter("bias", torch.zeros(shape, named(tensors, "bias")));
}

Tensor LayerNormImpl::forward(const Tensor& x) const {
  return functional::layer_norm(x, options.normalized_shape(), weight, bias, options.eps());
}

RMSNormImpl::RMSNormImpl(const RuntimeContext& torch, std::int64_t shape,
                         const TensorOptions& tensors, std::optional<double> epsilon)
    : normalized_shape(shape),
      eps(epsilon),
      weight(register_parameter("weight", torch.ones({shape}, named(tensors, "weight")))) {}

Tensor RMSNormImpl::forward(const Tensor& x) const {
  return functional::rms_norm(x, {normalized_shape}, weight, eps);
}

CrossEntropyLoss::CrossEntropyLoss(const CrossEntropyOptions& options)
    : ModuleHolder(std::make_shared<CrossEntropyLossImpl>(options)) {}
BCEWithLogitsLoss::BCEWithLogitsLoss(const BCEWithLogitsOptions& options)
    : ModuleHolder(std::make_shared<BCEWithLogitsLossImpl>(options)) {}

Tensor DropoutImpl::forward(const Tensor& x) const {
  return functional::dropout(x, p, is_training());
}

Tensor gelu_by_erf(const Tensor& x) {
  return functional::gelu(x);
}

Tensor same(const Tensor& x) {
  return x;
}

std::string LinearImpl::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}", weight.size(1), weight.size(0),
                     repr(bias.defined()));
}

std::string EmbeddingImpl::extra_repr() const {
  return fmt::format("{}, {}", weight.size(0), weight.size(1));
}

std::string LayerNormImpl::extra_repr() const {
  return fmt::format("{}, eps={}, elementwise_affine={}", repr(options.normalized_shape()),
                     repr(options.eps()), repr(options.elementwise_affine()));
}

std::string RMSNormImpl::extra_repr() const {
  return fmt::format("({},), eps={}, elementwise_affine=True", normalized_shape,
                     eps ? repr(*eps) : "None");
}

std::string DropoutImpl::extra_repr() const {
  return fmt::format("p={}, inplace=False", repr(p));
}

std::string SoftmaxImpl::extra_repr() const {
  return fmt::format("dim={}", dim);
}

std::string LogSoftmaxImpl::extra_repr() const {
  return fmt::format("dim={}", dim);
}

std::string FlattenImpl::extra_repr() const {
  return fmt::format("start_dim={}, end_dim={}", start_dim, end_dim);
}

}  // namespace kernbench::nn
