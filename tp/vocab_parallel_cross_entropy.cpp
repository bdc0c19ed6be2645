#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "sim_engine/base/add_in_pairs.h"
#include "tp/layers.h"
#include "tp/misuse.h"
#include "tp/parameter.h"
#include "tp/product_in_blocks.h"

namespace kernbench::tp {

namespace {

using autograd::SavedTensor;
using ops::LocalPart;

// This rank's part of the vocabulary, and the weight of the other words in the loss.
struct Vocabulary {
  VocabRange own;
  double smoothing = 0;  // s
  double of_each = 0;    // s / V
  std::int64_t blocks = 1;  // of its own part, each added up by itself
};

// Rows [first, first + count) of a PE's logits.
struct Rows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// A PE's logits, with the tensors that have one element per row.
class RowsOnPe {
 public:
  RowsOnPe(tl::Context& tl, const Tensor& logits) : tl_(tl), logits_(ops::local_part(logits, tl)) {}

  // Visits the rows block by block.
  template <class Visit>
  void for_each_block(Visit visit) const {
    ops::for_each_row_block(tl_, logits_, [&](std::int64_t first, std::int64_t count) {
      visit(Rows{first, count});
    });
  }

  // [count, V / W], in f32.
  tl::Tensor load(const Rows& rows) const { return load(rows, 0, logits_.columns); }
  // Loads these columns alone.
  tl::Tensor load(const Rows& rows, std::int64_t first, std::int64_t columns) const {
    return tl_.cast(tl_.load(logits_.data + rows.first * logits_.columns + first,
                             {rows.count, columns}, logits_.data.dtype(), logits_.columns),
                    DType::f32);
  }
  // One element for each row, as [count, 1].
  tl::Tensor load_each(const Tensor& of_rows, const Rows& rows) const {
    return tl_.load(ops::local_part(of_rows, tl_).data + rows.first, {rows.count, 1},
                    of_rows.dtype());
  }
  void store_each(const Tensor& of_rows, const Rows& rows, const tl::Tensor& values) const {
    tl_.store(ops::local_part(of_rows, tl_).data + rows.first, values);
  }
  // 1 where a column is the row's target, else 0; a target on another rank matches no column.
  tl::Tensor is_target(const Tensor& target, const Rows& rows, const VocabRange& own) const {
    const DType dtype = type_of_ids("vocab_parallel_cross_entropy", target, own.end);
    const tl::Tensor words =
        tl_.reshape(tl_.arange(own.begin, own.end, dtype), {1, own.end - own.begin});
    return tl_.cast(tl_.cast(load_each(target, rows), dtype) == words, DType::f32);
  }

  const LocalPart& logits() const { return logits_; }

 private:
  tl::Context& tl_;
  const LocalPart logits_;
};

Tensor make_for_each_row(const Tensor& target, std::string_view name) {
  return ops::make_like(target, name, target.shape(), DType::f32, ops::placement_of(target));
}

tl::Tensor sum_of_row(tl::Context& tl, const tl::Tensor& x) {
  return tl.sum(x, 1, {.keep_dims = true});
}

Tensor largest_logits(const Tensor& logits, const Tensor& target) {
  Tensor largest = make_for_each_row(target, "largest_logit");
  ops::launch("vocab_parallel_max", {largest}, {logits}, [=](tl::Context& tl) {
    const RowsOnPe part(tl, logits);
    part.for_each_block([&](const Rows& rows) {
      part.store_each(largest, rows, tl.max(part.load(rows), 1, {.keep_dims = true}));
    });
  });
  return largest;
}

struct Sums {
  Tensor picked;  // (1 - s) x[target] + s / V sum(x), where x is relative to the row's maximum
  Tensor exponentials;
};

// Sums of rows, on a PE.
struct SumsOnPe {
  tl::Tensor picked;
  tl::Tensor exponentials;
};

// Computes the sums over a block of the PE's words.
SumsOnPe add_up(tl::Context& tl, const RowsOnPe& part, const Rows& rows, const Tensor& target,
                const Tensor& largest, const Vocabulary& vocabulary, std::int64_t block) {
  const std::int64_t columns = part.logits().columns / vocabulary.blocks;
  const std::int64_t begin = vocabulary.own.begin + block * columns;
  const tl::Tensor x = part.load(rows, block * columns, columns) - part.load_each(largest, rows);
  const tl::Tensor is_target = part.is_target(target, rows, {begin, begin + columns});
  tl::Tensor picked = sum_of_row(tl, tl.where(is_target, x, 0));
  if (vocabulary.smoothing != 0) {
    picked = picked * (1 - vocabulary.smoothing) + sum_of_row(tl, x) * vocabulary.of_each;
  }
  return {picked, sum_of_row(tl, tl.exp(x))};
}

Sums sums_of_rows(const Tensor& logits, const Tensor& target, const Tensor& largest,
                  const Vocabulary& vocabulary) {
  const Sums sums{make_for_each_row(target, "predicted_logit"),
                  make_for_each_row(target, "sum_of_exponentials")};
  ops::launch("vocab_parallel_sums", {sums.picked, sums.exponentials}, {logits, target, largest},
              [=](tl::Context& tl) {
                const RowsOnPe part(tl, logits);
                part.for_each_block([&](const Rows& rows) {
                  const SumsOnPe own = sim::add_in_pairs(
                      0, vocabulary.blocks,
                      [&](std::int64_t block) {
                        return add_up(tl, part, rows, target, largest, vocabulary, block);
                      },
                      [](const SumsOnPe& a, const SumsOnPe& b) {
                        return SumsOnPe{a.picked + b.picked, a.exponentials + b.exponentials};
                      });
                  part.store_each(sums.picked, rows, own.picked);
                  part.store_each(sums.exponentials, rows, own.exponentials);
                });
              });
  return sums;
}

// (softmax - (1 - s) is_target - s / V) times the loss's gradient.
Tensor gradient_of_logits(const Tensor& logits, const Tensor& target, const Tensor& largest,
                          const Tensor& exponentials, const Tensor& dy,
                          const Vocabulary& vocabulary) {
  const Tensor gradient = ops::make_like(
      logits, "vocab_parallel_cross_entropy_backward", logits.shape(), logits.dtype(),
      ops::gradient_placement(ops::placement_of(dy), ops::placement_of(logits)));
  ops::launch("vocab_parallel_cross_entropy_backward", {gradient},
              {logits, target, largest, exponentials, dy}, [=](tl::Context& tl) {
                const RowsOnPe part(tl, logits);
                const LocalPart to = ops::local_part(gradient, tl);
                part.for_each_block([&](const Rows& rows) {
                  const tl::Tensor x = part.load(rows) - part.load_each(largest, rows);
                  const tl::Tensor mask = part.is_target(target, rows, vocabulary.own);
                  tl::Tensor slope = tl.exp(x) / part.load_each(exponentials, rows) -
                                     mask * (1 - vocabulary.smoothing);
                  if (vocabulary.smoothing != 0) slope = slope - vocabulary.of_each;
                  tl.store(to.data + rows.first * to.columns,
                           tl.cast(slope * part.load_each(dy, rows), logits.dtype()));
                });
              });
  return gradient;
}

void check(const Tensor& logits, const Tensor& target,
           const VocabParallelCrossEntropyOptions& options, int world_size) {
  ops::check_holders("vocab_parallel_cross_entropy", {logits, target});
  const Shape& shape = logits.shape();
  const bool has_columns = shape.rank() > 0 && shape[shape.rank() - 1] > 0;
  const auto rows = shape.sizes().first(has_columns ? shape.rank() - 1 : 0);
  if (!has_columns || !std::ranges::equal(rows, target.shape().sizes()) ||
      (target.dtype() != DType::f32 && target.dtype() != DType::i64)) {
    wrong_layer(
        fmt::format("vocab_parallel_cross_entropy: logits {} and target {} {}; [..., "
                    "vocabulary / W] and [...] in i64 or f32 are wanted",
                    to_string(shape), to_string(target.shape()), name_of(target.dtype())));
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    wrong_layer(
        fmt::format("vocab_parallel_cross_entropy: label_smoothing is {}; from 0 to below "
                    "1 is wanted",
                    options.label_smoothing));
  }
  const std::int64_t columns = shape[shape.rank() - 1];
  check_id_type("vocab_parallel_cross_entropy", target, columns * world_size);
  if (options.vocab_size && *options.vocab_size != columns * world_size) {
    wrong_layer(
        fmt::format("vocab_parallel_cross_entropy: logits of {} words on each of {} ranks "
                    "are no parts of a vocabulary of {}; gathered logits go into "
                    "cross_entropy",
                    columns, world_size, *options.vocab_size));
  }
  const ops::Placement placement = ops::placement_of(logits);
  for (const ops::Level& level : {placement.cube, placement.pe}) {
    const bool is_row = level.is_replicate() || level == ops::cut(0);
    if (is_row && ops::placement_of(target) == placement) continue;
    ops::refuse_placements("vocab_parallel_cross_entropy", logits, target,
                           "both must be replicated, or cut along the first dimension");
  }
}

}  // namespace

Tensor vocab_parallel_cross_entropy(RuntimeContext& torch, const Tensor& given_logits,
                                    const Tensor& given_target,
                                    const VocabParallelCrossEntropyOptions& options,
                                    Location location) {
  const ProcessGroup group = group_or_tensor_model_parallel(torch, options.tp_group);
  const int world_size = torch.distributed.get_world_size(group);
  torch.check_on_device(given_logits, "vocab_parallel_cross_entropy");
  const Tensor logits = contiguous(given_logits);
  const Tensor target = contiguous(given_target);
  check(logits, target, options, world_size);
  const std::int64_t columns = logits.shape()[logits.shape().rank() - 1];
  const auto words = static_cast<double>(columns * world_size);
  const double smoothing = words > 1 ? options.label_smoothing * words / (words - 1) : 0;
  const Vocabulary vocabulary{
      vocab_range_from_per_partition_vocab_size(columns, torch.distributed.get_rank(group)),
      smoothing, smoothing / words,
      count_blocks(torch, group, columns * world_size, "vocab_parallel_cross_entropy")};

  const Tensor largest = largest_logits(logits, target);
  torch.distributed.all_reduce(largest, ReduceOp::max, {group}, location);
  const Sums sums = sums_of_rows(logits, target, largest, vocabulary);
  torch.distributed.all_reduce(sums.picked, ReduceOp::sum, {group}, location);
  torch.distributed.all_reduce(sums.exponentials, ReduceOp::sum, {group}, location);
  const Tensor loss = ops::map(
      "vocab_parallel_cross_entropy", ops::placement_of(target), {sums.exponentials, sums.picked},
      [](tl::Context& tl, std::span<const tl::Tensor> of) { return tl.log(of[0]) - of[1]; });
  return autograd::record("vocab_parallel_cross_entropy", loss, {logits},
                          [logits = SavedTensor(logits), target = SavedTensor(target), largest,
                           exponentials = sums.exponentials, vocabulary](const Tensor& dy) {
                            return std::vector{gradient_of_logits(
                                logits.get(), target.get(), largest, exponentials, dy, vocabulary)};
                          });
}

}  // namespace kernbench::tp
