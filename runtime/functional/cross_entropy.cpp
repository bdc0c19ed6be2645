#include <fmt/format.h>

#include <limits>
#include <optional>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/fusion.h"
#include "runtime/tensor/describe.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::functional {

namespace {

using autograd::SavedTensor;
using ops::LocalPart;
using ops::RowBlock;
using Blocks = std::span<const tl::Tensor>;

constexpr std::string_view kName = "cross_entropy";
constexpr std::string_view kBackward = "cross_entropy_backward";

// The parameters of the loss that kernels have besides logits and targets.
struct LossRule {
  DType ids;  // in which targets are compared with the numbers of columns
  std::int64_t classes = 0;
  std::int64_t ignore_index = 0;
  double smoothing = 0;

  LossRule(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options)
      : ids(type_of_ids(kName, targets, logits.shape()[1])),
        classes(logits.shape()[1]),
        ignore_index(options.ignore_index),
        smoothing(options.label_smoothing) {}
  double of_each() const { return smoothing / static_cast<double>(classes); }
};

// A block of columns of some rows.
struct ColumnBlock {
  tl::Tensor x;          // logits in f32
  tl::Tensor is_target;  // 1 in each row's target column

  static ColumnBlock of(tl::Context& tl, const tl::Tensor& logits, const tl::Tensor& targets,
                        std::int64_t first_column, DType ids) {
    const std::int64_t width = logits.shape()[1];
    const tl::Tensor columns =
        tl.reshape(tl.arange(first_column, first_column + width, ids), {1, width});
    return {tl.cast(logits, DType::f32), tl.cast(targets, ids) == columns};
  }
};

tl::Tensor sum_of_rows(tl::Context& tl, const tl::Tensor& x) {
  return tl.sum(x, 1, {.keep_dims = true});
}

// The sums over columns of some rows from which the loss follows, [rows, 1] each.  Those of several
// blocks of columns are joined as in FlashAttention's online softmax, so that a row need not fit
// scratch.
struct RowSums {
  std::int64_t columns;
  tl::Tensor largest;                    // subtracted first, so that exp() does not overflow
  tl::Tensor exponentials;               // sum(exp(x - largest))
  tl::Tensor picked;                     // x[target], or 0
  std::optional<tl::Tensor> deviations;  // sum(x - largest), if labels are smoothed

  static RowSums of(tl::Context& tl, const ColumnBlock& block, const LossRule& rule) {
    // A finite maximum makes the exponentials of a block that is all -inf 0 instead of NaN.
    const tl::Tensor largest =
        tl.maximum(tl.max(block.x, 1, {.keep_dims = true}), std::numeric_limits<float>::lowest());
    const tl::Tensor x = block.x - largest;
    RowSums sums{block.x.shape()[1], largest, sum_of_rows(tl, tl.exp(x)),
                 sum_of_rows(tl, tl.where(block.is_target, block.x, 0)), std::nullopt};
    if (rule.smoothing != 0) sums.deviations = sum_of_rows(tl, x);
    return sums;
  }

  void join(tl::Context& tl, const RowSums& other) {
    const tl::Tensor joined = tl.maximum(largest, other.largest);
    const tl::Tensor shift = largest - joined;
    const tl::Tensor other_shift = other.largest - joined;
    exponentials = exponentials * tl.exp(shift) + other.exponentials * tl.exp(other_shift);
    picked = picked + other.picked;
    if (deviations) {
      deviations =
          (*deviations + shift * columns) + (*other.deviations + other_shift * other.columns);
    }
    largest = joined;
    columns += other.columns;
  }

  // Returns the losses of all rows, including those that do not count.
  tl::Tensor losses(tl::Context& tl, const LossRule& rule) const {
    const tl::Tensor normalizer = tl.log(exponentials);
    const tl::Tensor target = picked - largest;
    if (!deviations) return normalizer - target;
    return normalizer - target * (1 - rule.smoothing) - *deviations * rule.of_each();
  }
};

// A PE's rows of logits, with tensors that have one element per row.
class RowsOnPe {
 public:
  RowsOnPe(tl::Context& tl, const Tensor& logits) : tl_(tl), logits_(ops::local_part(logits, tl)) {}

  // Calls visit(rows) for blocks of rows: of one row where it has more than block_elements().
  template <class Visit>
  void for_each_block(Visit visit) const {
    ops::for_each_row_block(tl_, logits_, [&](std::int64_t first, std::int64_t count) {
      visit(RowBlock{first, count});
    });
  }
  // Calls visit(first column, logits) for blocks of columns of such rows.
  template <class Visit>
  void for_each_column_block(const RowBlock& rows, Visit visit) const {
    ops::for_each_block(
        logits_.columns, ops::block_elements(tl_), [&](std::int64_t column, std::int64_t width) {
          visit(column,
                tl_.load(at(logits_, rows, column), {rows.count, width}, logits_.data.dtype()));
        });
  }
  // Returns the pointer to these rows' elements of a tensor that lies as the logits do.
  static tl::Pointer at(const LocalPart& part, const RowBlock& rows, std::int64_t column) {
    return part.data + (rows.first * part.columns + column);
  }

  // One element for each row, as [count, 1].
  tl::Tensor load_each(const Tensor& of_rows, const RowBlock& rows) const {
    return tl_.load(ops::local_part(of_rows, tl_).data + rows.first, {rows.count, 1},
                    of_rows.dtype());
  }
  void store_each(const Tensor& of_rows, const RowBlock& rows, const tl::Tensor& values) const {
    tl_.store(ops::local_part(of_rows, tl_).data + rows.first, values);
  }

 private:
  tl::Context& tl_;
  const LocalPart logits_;
};

RowSums sums_of(tl::Context& tl, const RowsOnPe& part, const RowBlock& rows,
                const tl::Tensor& targets, const LossRule& rule) {
  std::optional<RowSums> sums;
  part.for_each_column_block(rows, [&](std::int64_t column, const tl::Tensor& logits) {
    const RowSums of_block =
        RowSums::of(tl, ColumnBlock::of(tl, logits, targets, column, rule.ids), rule);
    if (sums) {
      sums->join(tl, of_block);
    } else {
      sums = of_block;
    }
  });
  return *sums;
}

// The two numbers of each row, [n], from which the gradient computes the softmax in any blocks.
struct Normalizers {
  Tensor largest;
  Tensor exponentials;
};
struct RowLosses {
  Tensor each;  // [n]
  Normalizers normalizers;
};

RowLosses losses(const Tensor& logits, const Tensor& targets, const LossRule& rule) {
  const auto make = [&](std::string_view name) {
    return ops::make_like(logits, name, targets.shape(), DType::f32, ops::placement_of(targets));
  };
  const Normalizers normalizers{make("largest_logit"), make("sum_of_exponentials")};
  const Tensor each = make(kName);
  const auto body = [=](tl::Context& tl) {
    // A block takes twice the commands of most operators, and the next one's load runs beside them.
    tl.limit_commands_under_way(2 * ops::kCommandsAhead);
    const RowsOnPe part(tl, logits);
    part.for_each_block([&](const RowBlock& rows) {
      const tl::Tensor of_rows = part.load_each(targets, rows);
      const RowSums sums = sums_of(tl, part, rows, of_rows, rule);
      part.store_each(normalizers.largest, rows, sums.largest);
      part.store_each(normalizers.exponentials, rows, sums.exponentials);
      part.store_each(each, rows, tl.where(of_rows != rule.ignore_index, sums.losses(tl, rule), 0));
    });
  };
  ops::launch(kName, {each, normalizers.largest, normalizers.exponentials}, {logits, targets},
              body);
  return {each, normalizers};
}

// The factors of the gradient of some rows' logits, [rows, 1] each.
struct RowSlopes {
  tl::Tensor targets;
  tl::Tensor gradients;  // of the losses
  tl::Tensor largest;
  tl::Tensor exponentials;

  // Returns (softmax - (1 - smoothing) is_target - smoothing / c) times the loss's gradient, and 0
  // in rows that do not count, whatever their losses' gradients are.
  tl::Tensor of(tl::Context& tl, const tl::Tensor& logits, std::int64_t first_column,
                const LossRule& rule) const {
    const ColumnBlock block = ColumnBlock::of(tl, logits, targets, first_column, rule.ids);
    tl::Tensor slope = tl.exp(block.x - largest) / exponentials;
    slope = slope - block.is_target * (1 - rule.smoothing);
    if (rule.smoothing != 0) slope = slope - rule.of_each();
    return tl.cast(tl.where(targets != rule.ignore_index, slope * gradients, 0), logits.dtype());
  }
};

// Computes these slopes of rows of any length, in blocks of columns.
Tensor gradient_in_blocks(const ops::Placement& placement, const std::vector<Tensor>& operands,
                          const LossRule& rule) {
  const Tensor& logits = operands[0];
  Tensor gradient = ops::make_like(logits, kBackward, logits.shape(), logits.dtype(), placement);
  ops::launch(kBackward, {gradient}, operands, [=](tl::Context& tl) {
    const RowsOnPe part(tl, operands[0]);
    const LocalPart target = ops::local_part(gradient, tl);
    part.for_each_block([&](const RowBlock& rows) {
      const auto load = [&](std::size_t i) { return part.load_each(operands[i], rows); };
      const RowSlopes slopes{load(1), load(2), load(3), load(4)};
      part.for_each_column_block(rows, [&](std::int64_t column, const tl::Tensor& x) {
        tl.store(RowsOnPe::at(target, rows, column), slopes.of(tl, x, column, rule));
      });
    });
  });
  return gradient;
}

Tensor gradient_of_logits(const Tensor& gradients, const Tensor& logits, const Tensor& targets,
                          const Normalizers& normalizers, const LossRule& rule) {
  const Shape column{logits.shape()[0], 1};
  const ops::Placement placement =
      ops::gradient_placement(ops::placement_of(gradients), ops::placement_of(logits));
  const std::vector<Tensor> operands{logits, reshape(targets, column), reshape(gradients, column),
                                     reshape(normalizers.largest, column),
                                     reshape(normalizers.exponentials, column)};
  // Rows that are mapped whole can be a part of a fused kernel.
  if (!ops::may_defer_rows(logits)) return gradient_in_blocks(placement, operands, rule);
  return ops::map_rows(kBackward, placement, operands,
                       ops::Owning([rule](tl::Context& tl, Blocks of, const RowBlock&) {
                         return RowSlopes{of[1], of[2], of[3], of[4]}.of(tl, of[0], 0, rule);
                       }));
}

void check_options(const Tensor& logits, const Tensor& targets,
                   const CrossEntropyOptions& options) {
  ops::check_holders(kName, {logits, targets});
  ops::check_is_floating(kName, logits);
  if (!is_enumerator(options.reduction, 3)) {
    ops::refuse_shapes(kName, fmt::format("there is no Reduction {}; there are: mean, sum, none",
                                          number_of(options.reduction)));
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    ops::refuse_shapes(kName, fmt::format("label_smoothing must be between 0.0 and 1.0. Got: {}",
                                          options.label_smoothing));
  }
}

// REQUIRES: logits [rows, c]
void check_classes(const Tensor& logits, const Tensor& targets) {
  if (logits.shape()[1] == 0) {
    ops::refuse_shapes(
        kName, fmt::format("logits {}: at least one class is wanted", to_string(logits.shape())));
  }
  if (targets.dtype() != DType::f32 && targets.dtype() != DType::i64) {
    throw DeviceError("KB-F002",
                      "cross_entropy: expected scalar type Long but found {}: argument 2, {}; "
                      "targets must be i64 or f32, which has all whole numbers up to 2^24: make "
                      "'{}' with {{.dtype = {}}}",
                      torch_name_of(targets.dtype()), runtime::describe(targets), targets.name(),
                      runtime::words_for(DType::i64));
  }
  ops::check_has_whole_rows(kName, logits);
  if (ops::placement_of(targets) != ops::placement_of(logits)) {
    ops::refuse_placements(kName, logits, targets, "targets must be cut as the rows are");
  }
}

// The losses of logits [rows, c] with target classes [rows].
Tensor losses_of_classes(const Tensor& logits, const Tensor& targets,
                         const CrossEntropyOptions& options) {
  const LossRule rule(logits, targets, options);
  const RowLosses of_rows = losses(logits, targets, rule);
  if (!autograd::needs_grad(logits)) return of_rows.each;
  const auto backward = [logits = SavedTensor(logits), targets = SavedTensor(targets),
                         normalizers = of_rows.normalizers, rule](const Tensor& gradients) {
    return std::vector{
        gradient_of_logits(gradients, logits.get(), targets.get(), normalizers, rule), Tensor()};
  };
  return autograd::record(kName, of_rows.each, {logits, targets}, backward);
}

// The same, with a weight of each class.
Tensor weighted_losses(const Tensor& logits, const Tensor& targets,
                       const CrossEntropyOptions& options) {
  const std::int64_t classes = logits.shape()[1];
  const Tensor column = targets.detach().unsqueeze(1);
  const Tensor counts = column != options.ignore_index;
  const Tensor is_target = (column == numbers_beside(logits, classes)) & counts;
  const Tensor weighted =
      log_softmax(logits.to(DType::f32), 1) * options.weight.detach().to(DType::f32);
  const Tensor picked = sum(where(is_target, weighted, 0.0), 1);
  const double smoothing = options.label_smoothing;
  if (smoothing == 0) return -picked;
  return picked * (smoothing - 1) -
         sum(where(counts, weighted, 0.0), 1) * (smoothing / static_cast<double>(classes));
}

// The losses of logits with the probabilities of their classes, both [rows, c].
Tensor losses_of_probabilities(const Tensor& logits, const Tensor& targets,
                               const CrossEntropyOptions& options) {
  if (is_integral(targets.dtype())) {
    ops::refuse_type(kName, fmt::format("Expected floating point type for target with class "
                                        "probabilities, got {}",
                                        torch_name_of(targets.dtype())));
  }
  if (options.ignore_index >= 0) {
    ops::refuse_shapes(kName, "ignore_index is not supported for floating point target");
  }
  Tensor share = targets.to(DType::f32);
  if (const double smoothing = options.label_smoothing; smoothing > 0) {
    share = share * (1 - smoothing) + smoothing / static_cast<double>(logits.shape()[1]);
  }
  if (options.weight.defined()) share = share * options.weight.detach().to(DType::f32);
  return -sum(share * log_softmax(logits.to(DType::f32), 1), 1);
}

// The losses of all rows, and what their mean divides by.
struct Losses {
  Tensor each;
  double count = 0;
};

Losses compute(const Tensor& of, const Tensor& of_targets, const CrossEntropyOptions& options) {
  const Tensor logits = contiguous(classes_in_rows(of));
  check_class_weight(kName, options.weight, logits.shape()[1]);
  if (of.shape() == of_targets.shape()) {
    return {losses_of_probabilities(logits, classes_in_rows(of_targets), options),
            static_cast<double>(logits.shape()[0])};
  }
  const Tensor targets = contiguous(of_targets.dim() == 1 ? of_targets : flatten(of_targets));
  check_classes(logits, targets);
  // The host counts, since a mean over rows that PEs share would otherwise need a collective.
  const std::int64_t count = count_targets(kName, targets, logits.shape()[1], options.ignore_index);
  if (!options.weight.defined()) {
    return {losses_of_classes(logits, targets, options), static_cast<double>(count)};
  }
  return {weighted_losses(logits, targets, options),
          weigh_targets(targets, options.weight, options.ignore_index)};
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  check_options(logits, targets, options);
  const bool are_classes = logits.dim() == 0 || logits.shape() != targets.shape();
  if (are_classes) check_target_shape(kName, logits, targets);
  const auto [each, count] = compute(logits, targets, options);
  if (options.reduction != Reduction::none) {
    const Tensor total = sum(each);
    return options.reduction == Reduction::sum ? total : total * (1 / count);
  }
  const Shape shape = without_classes(logits.shape());
  return each.shape() == shape ? each : reshape(each, shape);
}

}  // namespace kernbench::nn::functional
