#include <fmt/format.h>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
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

// Rows of logits in f32; a mask of each row's target column; and which rows count, [rows, 1].
struct Classes {
  tl::Tensor x;
  tl::Tensor is_target;
  tl::Tensor counts;

  // Numbers of classes are compared in f32, since no row of more of them fits scratch.
  static Classes of(tl::Context& tl, const tl::Tensor& logits, const tl::Tensor& targets,
                    std::int64_t ignore_index) {
    const tl::Tensor columns = tl.reshape(tl.arange(0, logits.shape()[1]), {1, logits.shape()[1]});
    return {tl.cast(logits, DType::f32), tl.cast(targets, DType::f32) == columns,
            targets != ignore_index};
  }
};

tl::Tensor sum_of_rows(tl::Context& tl, const tl::Tensor& x) {
  return tl.sum(x, 1, {.keep_dims = true});
}

// Returns the losses of all rows, including those that do not count.
tl::Tensor compute_all_losses(tl::Context& tl, const Classes& classes, double smoothing) {
  // Subtracts the largest logit first, so that exp() does not overflow.
  const tl::Tensor largest = tl.max(classes.x, 1, {.keep_dims = true});
  const tl::Tensor x = classes.x - largest;
  const tl::Tensor normalizer = tl.log(sum_of_rows(tl, tl.exp(x)));
  const tl::Tensor picked = sum_of_rows(tl, tl.where(classes.is_target, classes.x, 0)) - largest;
  if (smoothing == 0) return normalizer - picked;
  const double of_each = smoothing / static_cast<double>(x.shape()[1]);
  return normalizer - picked * (1 - smoothing) - sum_of_rows(tl, x) * of_each;
}

tl::Tensor compute_losses(tl::Context& tl, const Classes& classes, double smoothing) {
  return tl.where(classes.counts, compute_all_losses(tl, classes, smoothing), 0);
}

// Returns one loss for each row, [n].
Tensor losses(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  Tensor result =
      ops::make_like(logits, kName, targets.shape(), DType::f32, ops::placement_of(targets));
  const auto body = [=](tl::Context& tl) {
    const LocalPart source = ops::local_part(logits, tl);
    const LocalPart of_targets = ops::local_part(targets, tl);
    const LocalPart target = ops::local_part(result, tl);
    ops::for_each_row_block(tl, source, [&](std::int64_t row, std::int64_t height) {
      const Classes classes = Classes::of(
          tl, tl.load(source.data + row * source.columns, {height, source.columns}, logits.dtype()),
          tl.load(of_targets.data + row, {height, 1}, targets.dtype()), options.ignore_index);
      tl.store(target.data + row, compute_losses(tl, classes, options.label_smoothing));
    });
  };
  ops::launch_on_rows(kName, {result}, {logits, targets}, logits.shape()[1], body);
  return result;
}

// Returns, row by row, (softmax - (1 - smoothing) is_target - smoothing / c) times the loss's
// gradient, and 0 in rows that do not count, whatever their losses' gradients are.
Tensor gradient_of_logits(const Tensor& gradients, const Tensor& logits, const Tensor& targets,
                          const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  const Shape column{logits.shape()[0], 1};
  const double of_each = smoothing / static_cast<double>(logits.shape()[1]);
  const ops::Placement placement =
      ops::gradient_placement(ops::placement_of(gradients), ops::placement_of(logits));
  return ops::map_rows("cross_entropy_backward", placement,
                       {logits, reshape(targets, column), reshape(gradients, column)},
                       ops::Owning([=, dtype = logits.dtype(), ignore_index = options.ignore_index](
                                       tl::Context& tl, Blocks of, const RowBlock&) {
                         const Classes classes = Classes::of(tl, of[0], of[1], ignore_index);
                         tl::Tensor slope =
                             tl.softmax(classes.x) - classes.is_target * (1 - smoothing);
                         if (smoothing != 0) slope = slope - of_each;
                         return tl.cast(tl.where(classes.counts, slope * of[2], 0), dtype);
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
  Tensor each = losses(logits, targets, options);
  if (!autograd::needs_grad(logits)) return each;
  const auto backward = [logits = SavedTensor(logits), targets = SavedTensor(targets),
                         options](const Tensor& gradients) {
    return std::vector{gradient_of_logits(gradients, logits.get(), targets.get(), options),
                       Tensor()};
  };
  return autograd::record(kName, std::move(each), {logits, targets}, backward);
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
