// torch.nn.functional, and with it all operators on tensors that a user calls.

#pragma once

#include <cstdint>
#include <optional>

#include "runtime/functional/compile.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {

// Activations: elementwise functions of one tensor.  operators.h has the rules for all of them; x
// must not be partial (KB-F003).

// max(x, 0).  Its gradient at 0 is 0, as torch's.
Tensor relu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
// The hyperbolic tangent, within 3e-7 of it before it is rounded to the type.
Tensor tanh(const Tensor& x);

namespace nn::functional {

using kernbench::relu;
using kernbench::sigmoid;
using kernbench::tanh;

// x sigmoid(x), computed in f32 with one rounding (torch.nn.functional.silu).
Tensor silu(const Tensor& x);

// log(1 + exp(x)) (torch's with beta 1; torch takes x itself above 20, where f32 has no other), and
// x, or negative_slope x where x is negative.
Tensor softplus(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
// log(sigmoid(x)), and x, or alpha (e^x - 1) where x is negative.
Tensor logsigmoid(const Tensor& x);
Tensor elu(const Tensor& x, double alpha = 1);
// a sigmoid(b) for the two halves a and b along a dimension of an even size (KB-F001).
Tensor glu(const Tensor& x, int dim = -1);

enum class Approximate : std::uint8_t { none, tanh };

// x Phi(x), where Phi is the standard normal distribution (torch.nn.functional.gelu).  It is
// computed in f32, with one rounding to the type.
//   none  Phi(x) = erfc(-x / sqrt(2)) / 2.  PE_MATH has no erfc, so a polynomial times
//         exp(-x^2 / 2) approximates it (Abramowitz and Stegun 7.1.26): its error is at most
//         0.75e-7 of Phi and, with f32 rounding, 6e-7 (ADR-0137).
//   tanh  x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), as in Megatron's fused bias_gelu and
//         tl.composite; in forward it takes about two thirds of the time of `none`.
Tensor gelu(const Tensor& x, Approximate approximate = Approximate::none);

}  // namespace nn::functional

}  // namespace kernbench

namespace kernbench::nn::functional {

// exp(x - max) / sum(exp(x - max)) along a dimension, which is whole on each PE (KB-F003), computed
// in f32 with one rounding to the type.  It works on rows: another dimension than the last one is
// transposed there and back.  Rows must fit scratch
// several times (KB-M010): with 2 MiB they have up to 174,000 elements of f16, or 95,000 with
// gradients; of f32 262,000, or 131,000 with gradients.
Tensor softmax(const Tensor& x, int dim = -1);

struct AttentionOptions {
  // The mask broadcasts to the scaled scores [..., s, t].  A bool mask is true where a key is seen;
  // numbers are added to the scores, 0 where it is seen and -inf where it is not.
  Tensor attn_mask = {};
  double dropout_p = 0;              // of the probabilities, in training or not
  bool is_causal = false;            // a row sees columns up to its own number
  std::optional<double> scale = {};  // unless given, 1 / sqrt(d)
  bool enable_gqa = false;           // several heads of the query share one of key and value
};

// softmax(scale query key^T + mask) value, for query [..., s, d], key [..., t, d] and value [...,
// t, e] with equal leading sizes: [..., s, e].  Two products and a softmax, each a kernel with one
// rounding: scores are scaled before they are rounded, so that in f16 only the scaled ones need to
// be finite; a mask and dropout are a kernel each.  PEs may share the heads: with three dimensions,
// row_wise splits heads (split_heads() makes them from a column_wise matrix).
//
// enable_gqa: query [..., h, s, d], key and value [..., k, t, ...], where k divides h; head i of
// the query has head i / (h / k) of the others. Throws DeviceError KB-F001, in torch's words, for a
// mask with is_causal, or other numbers of heads.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

}  // namespace kernbench::nn::functional

namespace kernbench::nn::attention {

struct VarlenAttentionOptions {
  bool is_causal = false;            // the last row of a sequence sees all of its keys
  std::optional<double> scale = {};  // unless given, 1 / sqrt(d)
  bool enable_gqa = false;           // several heads of the query share one of key and value
};

// The attention of n sequences that follow each other (torch.nn.attention.varlen.varlen_attn):
// query [tokens, heads, d], key and value [tokens of keys, key heads, d]; the host tensors cu_seq_q
// and cu_seq_k [n + 1] have where each sequence begins, and the end, and max_q and max_k are at
// least the longest.  Scores are never in HBM: they are computed tile by tile, in f32, and again in
// backward.  PEs may hold copies, or share the tokens in any way, also within a sequence, and then
// compute equal parts of the work.  With is_causal, row i of s sees the keys
// up to i + t - s of t, as torch's.  Throws DeviceError KB-F001 for shapes and positions that do
// not fit, or a row that would see no key; KB-F003 for other placements.
Tensor varlen_attn(const Tensor& query, const Tensor& key, const Tensor& value,
                   const Tensor& cu_seq_q, const Tensor& cu_seq_k, std::int64_t max_q,
                   std::int64_t max_k, const VarlenAttentionOptions& options = {});

}  // namespace kernbench::nn::attention

namespace kernbench::nn::functional {

// batchmean, the sum divided by the first dimension, is kl_div's.
enum class Reduction : std::uint8_t { mean, sum, none, batchmean };

struct CrossEntropyOptions {
  Tensor weight = {};          // [c], of each class; unless given, 1
  double label_smoothing = 0;  // from 0 to 1: the share that is spread evenly over all classes
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;  // rows with this target do not count
};

// The loss of logits [n, c], [n, c, d...] or [c] with target classes [n], [n, d...] or [] in i64 or
// f32.  For each row it is
//   log(sum(exp(x))) - (1 - label_smoothing) x[target] - label_smoothing mean(x);
// the result is the rows' mean, their sum, or all of them (torch.nn.functional.cross_entropy).  A
// row whose target is ignore_index has loss and gradient 0, and the mean is over the other rows:
// NaN if there is none.  It is computed in f32, and the losses are f32, whatever the type of the
// logits, as under torch.autocast.  Rows must be whole on each PE and may be split as the targets
// are; then the mean and the sum are partial.  A row may have any length, since one that does not
// fit scratch is computed in blocks of columns (ADR-0137).
//
// Targets of the logits' shape are the classes' probabilities p, and each row's loss is
// -sum(p log_softmax(x)): several kernels, as with a weight, by which each class's summand is
// multiplied; the mean then divides by the weights of the targets, but with probabilities by the
// number of rows.  Rows then have to fit scratch several times, as those of log_softmax() in f32.
//
// The host reads the targets (ADR-0137) and waits for the operations that they depend on.  In a
// context without data all rows count.
// Throws DeviceError KB-F001, KB-F002 for targets of another type, KB-F003, KB-F004 for a target
// that is neither a class nor ignored, with torch's text, and, with a weight or probabilities,
// KB-M010.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});

// Losses besides cross_entropy.

// (input - target)^2 and |input - target|: their mean, their sum, or all of them.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

// -(target log(p) + (1 - target) log(1 - p)) for p = sigmoid(input), as target softplus(-x) +
// (1 - target) softplus(x), which no size of x makes infinite and in which no digits cancel.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        Reduction reduction = Reduction::mean);
// Both broadcast to the input.
struct BCEWithLogitsOptions {
  Tensor weight = {};  // a factor of each loss
  Reduction reduction = Reduction::mean;
  Tensor pos_weight = {};  // a factor of target log(p)
};
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BCEWithLogitsOptions& options);
// distance^2 / (2 beta) below beta, and |distance| - beta / 2 from there on.  With beta = 0 it is
// l1_loss().  KB-F001 for a negative beta.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::mean, double beta = 1);

// distance^2 / 2 below delta, and delta (|distance| - delta / 2) from there on.  KB-F001 for a
// delta that is not above 0.
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                  double delta = 1);
// -(target log(p) + (1 - target) log(1 - p)) of probabilities, whose logarithms are at least -100,
// as torch's.  For logits use binary_cross_entropy_with_logits(), which loses no digits.  Throws
// DeviceError KB-F001, in torch's words, for a probability outside of [0, 1] if the host knows it,
// which does not wait for what is being computed (ADR-0243).
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            Reduction reduction = Reduction::mean);

struct KlDivOptions {
  Reduction reduction = Reduction::mean;
  bool log_target = false;  // the target is one of logarithms
};
// target (log(target) - input), for an input of logarithms; 0 where the target is 0.
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

// The products of a and b, each divided by its length, which is at least eps, along a dimension.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim = 1, double eps = 1e-8);

// -weight[target[i]] input[i, target[i]] of each row, for log-probabilities and classes with the
// shapes of cross_entropy(); 0 where the target is ignore_index, and the mean is divided by the
// other rows' weights.  Classes are compared with a range [c] on the device; the rows are whole on
// each PE (KB-F003).  The host reads the targets, as cross_entropy does: one that is no class is
// refused with torch's text (KB-F004).
Tensor nll_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                std::int64_t ignore_index = -100, const Tensor& weight = {});

// Looks up rows of a table by their numbers.

struct EmbeddingOptions {
  // The number of the table's first row, if it is a part of a larger one.
  std::optional<std::int64_t> first_index = std::nullopt;
};

// Returns row `indices[i] - first_index` of the table [n, h] for each of the indices [...]: [...,
// h].  Indices are i64, i32 or, for up to 2^24 rows, whole numbers in f32.  An index that is no row
// is refused with torch's text if the host knows it, which does not wait for indices that are being
// computed (ADR-0243); of these, and of a part of a larger table, it gives a row of zeros, as the
// other parts of a split vocabulary need.  Rows are gathered, and their gradients added up by their
// number; for time they count as spread evenly over the table (ADR-0137).
//
// The result's placement on each level, from those of indices and table:
//   replicate, replicate          -> replicate     replicate, columns cut -> columns cut
//   first dimension cut, replicate -> the same     replicate, rows cut    -> partial
// Throws DeviceError KB-F001, KB-F002 for indices of another type, KB-F003.
Tensor embedding(const Tensor& indices, const Tensor& table, const EmbeddingOptions& options = {});

// Products with a weight: linear, convolutions; and pooling, which has the windows of these.

// x weight^T + bias for x [..., in], weight [out, in] and bias [out] or none: [..., out], as in
// torch, and of a weight [in] without a bias [...].  It is an addmm(), with one rounding.  The
// layers of tp have weights [in, out], which they multiply without a transposition.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// A number for the rows and one for the columns of an image: `2`, or `{2, 1}`.
struct Pair {
  std::int64_t height = 0;
  std::int64_t width = 0;

  Pair(std::int64_t both) : height(both), width(both) {}
  Pair(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
};

struct ConvOptions {
  Pair stride = 1;
  Pair padding = 0;   // zeros on each side
  Pair dilation = 1;  // between neighbours of a window
  std::int64_t groups = 1;
};

// Convolutions of x [n, c, h, w] with weight [o, c / groups, kh, kw], and of [n, c, l] with
// [o, c / groups, k], whose options' widths count: [n, o, rows, columns] and [n, o, count].  Here
// and in pooling an x without n is one sample, and so is the result.  One
// kernel makes the windows the rows of a matrix, one product multiplies all of them by the weight,
// and another one exchanges the dimensions; padding is a copy for each dimension (ADR-0137).  Only
// the batch may be cut, and only with one group.  KB-F001 in torch's words, KB-F002, KB-F003.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
// The windows of an image [n, c, h, w], [n, c kh kw, windows] (torch.nn.functional.unfold).
Tensor unfold(const Tensor& x, const Pair& kernel_size, const ConvOptions& options = {});

struct PoolOptions {
  std::optional<Pair> stride = {};  // the kernel's size
  Pair padding = 0;
};

// The largest element, or the mean, of each window of x [n, c, h, w]; of equal ones the first has
// the gradient.  Padding counts as -infinity, and in means as 0.  adaptive_avg_pool2d() has
// output_size windows: from floor(i h / rows) to ceil((i + 1) h / rows), a kernel for each row and
// each column of the result where it does not divide the image.  Throw as conv2d().
Tensor max_pool2d(const Tensor& x, const Pair& kernel_size, const PoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const Pair& kernel_size, const PoolOptions& options = {});
Tensor adaptive_avg_pool2d(const Tensor& x, const Pair& output_size);

// Normalization of rows: over the last dimensions, which must be whole on each PE (KB-F003).  It is
// computed in f32, with one rounding to the type of x.
//
// A kernel holds several whole rows in f32 in scratch (KB-M010): with 2 MiB and nothing else in
// it, rows may have up to 104,000 elements, and up to 65,000 if gradients are computed.

// (x - mean) / sqrt(variance + eps) weight + bias, with the mean and the variance of each row (the
// biased variance, divided by n).  `normalized_shape` are the last dimensions of x, which count as
// one of n elements; weight and bias have it or are undefined, and every holder has them whole.
// Where x is split, their gradients are partial.
// Throws DeviceError KB-F001, KB-F002, KB-F003.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// x / sqrt(mean(x^2) + eps) weight; `eps` defaults to the epsilon of f32.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

struct BatchNormOptions {
  Tensor weight = {};
  Tensor bias = {};
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
};

// (x - mean) / sqrt(variance + eps) weight + bias with one mean and variance for each channel of x
// [n, c, ...]: the batch's in training, when the running ones move towards them by `momentum`, with
// the unbiased variance; else the running ones.  The running ones, the weight and the bias are [c],
// or undefined.  Several kernels, in f32, with one rounding.  In training the batch must not be cut
// (KB-F003), as nothing adds up the holders' means.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});

// layer_norm() of each of num_groups groups of channels of each x [n, c, ...], then weight [c] and
// bias [c].
Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

struct NormalizeOptions {
  double p = 2;
  int dim = 1;
  double eps = 1e-12;
};
// x / max(its p-norm along the dimension, eps) (torch.nn.functional.normalize).
Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

// In training, sets each element to 0 with probability p and multiplies the others by 1 / (1 - p);
// else x itself.  The mask comes from the generator of the device and is the same with every
// placement of x; the host draws it outside of simulated time, and the kernel loads it (ADR-0208).
// x may be partial.  Throws DeviceError KB-F001, in torch's words, for a p outside of [0, 1].
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace kernbench::nn::functional

namespace kernbench {

// torch::silu, torch::gelu, torch::softmax
using nn::functional::gelu;
using nn::functional::silu;
using nn::functional::softmax;

// Random choices, drawn as those of dropout(); no gradient flows through them.
//
// multinomial: num_samples indices of each row of [k] or [n, k], i64, where those of larger numbers
// are more probable: in proportion, if the numbers of a row are summed up (torch.multinomial). Each
// is chosen once unless there is `replacement`.  The host reads x and throws DeviceError KB-F001,
// in torch's words, for what are no weights. bernoulli: 1 with the probability that each element
// is, else 0, in x's type (torch.bernoulli).
Tensor multinomial(const Tensor& x, std::int64_t num_samples, bool replacement = false);
Tensor bernoulli(const Tensor& x);

}  // namespace kernbench
