#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn {

namespace {

TensorOptions with_name(TensorOptions options, const char* name) {
  options.name = options.name.empty() ? name : options.name + "." + name;
  return options;
}

// Torch's out_proj has a class of its own, so that it is not quantized by accident.
struct NonDynamicallyQuantizableLinearImpl
    : Layer<NonDynamicallyQuantizableLinearImpl, LinearImpl> {
  using Layer::Layer;
};

}  // namespace

MultiheadAttentionImpl::MultiheadAttentionImpl(const RuntimeContext& torch,
                                               const MultiheadAttentionOptions& of,
                                               const TensorOptions& tensors)
    : options(of) {
  const std::int64_t e = of.embed_dim();
  if (of.num_heads() < 1 || e % of.num_heads() != 0) {
    throw CollectiveError("KB-A010", "embed_dim must be divisible by num_heads: {} and {}", e,
                          of.num_heads());
  }
  in_proj_weight = register_parameter(
      "in_proj_weight", torch.empty({3 * e, e}, with_name(tensors, "in_proj_weight")));
  init::xavier_uniform_(in_proj_weight);
  if (of.bias()) {
    in_proj_bias = register_parameter("in_proj_bias",
                                      torch.zeros({3 * e}, with_name(tensors, "in_proj_bias")));
  }
  out_proj = register_module(
      "out_proj", Linear(std::make_shared<NonDynamicallyQuantizableLinearImpl>(
                      torch, LinearOptions(e, e).bias(of.bias()), with_name(tensors, "out_proj"))));
  if (of.bias()) init::zeros_(out_proj->bias);
}

// [b, t, e] to [b, heads, t, e / heads], by the part of in_proj_weight for the query (0), the key
// (1) or the value (2).
Tensor MultiheadAttentionImpl::projected(const Tensor& x, std::int64_t which) const {
  const std::int64_t e = options.embed_dim();
  const Tensor bias = in_proj_bias.defined() ? in_proj_bias.narrow(0, which * e, e) : in_proj_bias;
  const Tensor y = functional::linear(x, in_proj_weight.narrow(0, which * e, e), bias);
  const Shape by_head{x.size(0), x.size(1), options.num_heads(), e / options.num_heads()};
  return transpose(reshape(y, by_head), 1, 2);
}

namespace {

// A mask of bool, which is true where a key is not seen, as numbers to add.
Tensor added(const Tensor& mask, DType dtype) {
  if (!mask.defined() || mask.dtype() != DType::boolean) return mask;
  return where(mask, -std::numeric_limits<double>::infinity(), 0.0).to(dtype);
}

}  // namespace

Tensor MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const MultiheadAttentionMasks& masks) const {
  const auto batch_first = [this](const Tensor& x) {
    return options.batch_first() ? x : transpose(x, 0, 1);
  };
  const Tensor q = projected(batch_first(query), 0);
  functional::AttentionOptions attention{.attn_mask = added(masks.attn_mask, q.dtype()),
                                         .dropout_p = is_training() ? options.dropout() : 0,
                                         .is_causal = masks.is_causal};
  if (masks.key_padding_mask.defined()) {
    const Tensor padding = added(masks.key_padding_mask, q.dtype());
    const Tensor of_keys = reshape(padding, Shape{padding.size(0), 1, 1, padding.size(1)});
    const Tensor& given = attention.attn_mask;
    attention.attn_mask = given.defined() ? given + of_keys : of_keys;
  }
  const Tensor heads = functional::scaled_dot_product_attention(
      q, projected(batch_first(key), 1), projected(batch_first(value), 2), attention);
  const Shape together{heads.size(0), heads.size(2), options.embed_dim()};
  return batch_first(out_proj(reshape(transpose(heads, 1, 2), together)));
}

namespace {

struct Turns {
  std::vector<float> cosines;
  std::vector<float> sines;
};

// Returns the cosine and the sine of `dim` elements for each position.
Turns turns_at(const std::vector<std::int64_t>& positions, std::int64_t dim, double base) {
  const std::int64_t half = dim / 2;
  Turns turns;
  for (const std::int64_t position : positions) {
    for (std::int64_t i = 0; i < dim; ++i) {
      const double exponent = -static_cast<double>(i % half) / static_cast<double>(half);
      const double angle = static_cast<double>(position) * std::pow(base, exponent);
      turns.cosines.push_back(static_cast<float>(std::cos(angle)));
      turns.sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return turns;
}

std::vector<std::int64_t> from_0_to(std::int64_t end) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(std::max<std::int64_t>(end, 0)));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  return positions;
}

}  // namespace

RotaryEmbeddingImpl::RotaryEmbeddingImpl(const RuntimeContext& torch, std::int64_t dim,
                                         std::int64_t max_seq_len, const TensorOptions& tensors,
                                         double base) {
  TensorOptions own = tensors;  // each PE has a copy, as of what is no matrix
  own.dp = own.dp.for_rank(1);
  const Turns turns = turns_at(from_0_to(max_seq_len), dim, base);
  cosine = torch.tensor(turns.cosines, {max_seq_len, dim}, with_name(own, "cosine"));
  sine = torch.tensor(turns.sines, {max_seq_len, dim}, with_name(own, "sine"));
}

RotaryEmbeddingImpl::RotaryEmbeddingImpl(const RuntimeContext& torch, std::int64_t dim,
                                         const std::vector<std::int64_t>& positions,
                                         const TensorOptions& tensors, double base) {
  const Turns turns = turns_at(positions, dim, base);
  const Shape shape{std::ssize(positions), 1, dim};
  cosine = torch.tensor(turns.cosines, shape, with_name(tensors, "cosine"));
  sine = torch.tensor(turns.sines, shape, with_name(tensors, "sine"));
}

Tensor RotaryEmbeddingImpl::forward(const Tensor& x) const {
  const std::int64_t half = x.size(-1) / 2;
  const Tensor other = cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  const std::int64_t rows = x.size(-2);
  if (cosine.dim() == 3 || rows == cosine.size(0)) return x * cosine + other * sine;
  return x * cosine.narrow(0, 0, rows) + other * sine.narrow(0, 0, rows);
}

}  // namespace kernbench::nn
