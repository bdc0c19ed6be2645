#include "runtime/functional/elementwise_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/in_place.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/result_type.h"
#include "runtime/simulation/named_call.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/values/element_format.h"

namespace kernbench {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using Blocks = std::span<const tl::Tensor>;

// Returns the blocks in the type that a function computes in; a mask stays as it is.
std::vector<tl::Tensor> blocks_for(tl::Context& tl, DType dtype, Blocks blocks,
                                   unsigned mask = needs::kNothing) {
  std::vector<tl::Tensor> made(blocks.begin(), blocks.end());
  for (std::size_t i = 0; i < made.size(); ++i) {
    if ((mask >> i & 1U) == 0) made[i] = tl.cast(made[i], dtype);
  }
  return made;
}

// The type in which a function of operands of one type computes.
DType computed_in(Computes computes, DType dtype) {
  return computes == Computes::in_f32 && !is_integral(dtype) ? DType::f32 : dtype;
}

// The types of an operator's call.
struct Typing {
  DType computed = DType::f32;
  DType result = DType::f32;
};

ops::BlockFunction make_forward(const ElementwiseOperator& op, const Numbers& numbers,
                                const Typing& types) {
  // Operators are constants.
  return ops::Owning([&op, numbers, types](tl::Context& tl, Blocks blocks) {
    const std::vector<tl::Tensor> own = blocks_for(tl, types.computed, blocks, op.mask);
    Elements elements{.tl = tl, .numbers = numbers};
    for (std::size_t i = 0; i < own.size(); ++i) elements.operands[i] = &own[i];
    return tl.cast(op.forward(elements), types.result);
  });
}

// Returns the function that computes a derivative from the blocks of dy and of the tensors that it
// needs, which come in the order of the bits of `needs`.
ops::BlockFunction make_gradient(const Derivative& derivative, const Numbers& numbers,
                                 DType dtype) {
  return ops::Owning([&derivative, numbers, dtype](tl::Context& tl, Blocks blocks) {
    const std::vector<tl::Tensor> own =
        blocks_for(tl, computed_in(derivative.computes, dtype), blocks);
    Elements elements{.tl = tl, .gradient = own.data(), .numbers = numbers};
    std::size_t next = 1;
    for (std::size_t i = 0; i < kMostElementwiseOperands; ++i) {
      if ((derivative.needs >> i & 1U) != 0) elements.operands[i] = &own[next++];
    }
    if ((derivative.needs & needs::kResult) != 0) elements.result = &own[next];
    return tl.cast(derivative.of(elements), dtype);
  });
}

// The Backward of an operator.
class ElementwiseBackward {
 public:
  // `first` is what the first operand was: its elements may be about to be overwritten.
  ElementwiseBackward(const ElementwiseOperator& op, const std::vector<Tensor>& operands,
                      const Numbers& numbers)
      : op_(&op), numbers_(numbers), wanted_(operands.size(), false) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      forms_.push_back({operands[i].shape(), operands[i].dtype()});
      wanted_[i] = op.derivatives[i].exists() && needs_grad(operands[i]);
      if (wanted_[i]) needs_ |= op.derivatives[i].needs;
    }
    saved_.resize(operands.size());
  }

  // True if a gradient flows to an operand.  Otherwise no node is recorded.
  static bool is_needed(const ElementwiseOperator& op, const std::vector<Tensor>& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (op.derivatives[i].exists() && needs_grad(operands[i])) return true;
    }
    return false;
  }
  bool needs_operand(std::size_t i) const { return (needs_ >> i & 1U) != 0; }
  void save(std::size_t i, const Tensor& operand) {
    if (needs_operand(i)) saved_[i] = SavedTensor(operand);
  }
  void save_result(const Tensor& y) {
    if ((needs_ & needs::kResult) != 0) result_ = SavedTensor(y);
  }

  std::vector<Tensor> operator()(const Tensor& dy) const {
    std::vector<Tensor> gradients(wanted_.size());
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i]) continue;
      gradients[i] = ops::converted(ops::sum_to(forms_[i].shape, gradient(dy, op_->derivatives[i])),
                                    forms_[i].dtype);
    }
    return gradients;
  }

 private:
  Tensor gradient(const Tensor& dy, const Derivative& derivative) const {
    if (derivative.is_identity) return dy;
    std::vector<Tensor> operands{dy};
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      if ((derivative.needs >> i & 1U) != 0) operands.push_back(saved_[i].get());
    }
    if ((derivative.needs & needs::kResult) != 0) operands.push_back(result_.get());
    const std::string name = fmt::format("{}_backward", op_->name);
    return ops::map(name,
                    ops::elementwise_placement(name, operands, dy.shape(), ops::Linearity::each),
                    operands, make_gradient(derivative, numbers_, dy.dtype()));
  }

  const ElementwiseOperator* op_;
  Numbers numbers_;
  std::vector<bool> wanted_;
  struct Form {
    Shape shape;
    DType dtype;
  };
  std::vector<Form> forms_;  // of the operands
  unsigned needs_ = needs::kNothing;
  std::vector<SavedTensor> saved_;
  SavedTensor result_;
};

struct ResultForm {
  Shape shape;
  Typing types;
  ops::Placement placement;
};

// Returns the type of what operands and numbers together compute.
DType common_type(std::string_view name, const std::vector<Tensor>& operands,
                  const std::vector<Scalar>& numbers) {
  const Tensor& first = operands.front();
  const bool are_alike = std::ranges::all_of(
      operands, [&](const Tensor& operand) { return operand.dtype() == first.dtype(); });
  const bool is_plain = are_alike && !is_integral(first.dtype());
  const DType common = is_plain ? first.dtype() : ops::result_type(name, operands, numbers);
  if (is_float8(common)) ops::check_is_floating(name, first);
  return common;
}

DType common_type(const ElementwiseOperator& op, const std::vector<Tensor>& operands,
                  const std::vector<Scalar>& numbers) {
  if (op.mask == needs::kNothing) return common_type(op.name, operands, numbers);
  std::vector<Tensor> values = operands;
  values.erase(values.begin() + std::countr_zero(op.mask));
  return common_type(op.name, values, numbers);
}

// Checks the operands.
ResultForm make_result_form(const ElementwiseOperator& op, const std::vector<Tensor>& operands,
                            const std::vector<Scalar>& numbers) {
  ops::check_holders(op.name, operands);
  DType common = common_type(op, operands, numbers);
  if (op.result == ResultType::floating && is_integral(common)) common = DType::f32;
  ResultForm form{ops::broadcast_shape(op.name, operands),
                  {computed_in(op.computes, common),
                   op.result == ResultType::boolean ? DType::boolean : common},
                  {}};
  form.placement = ops::elementwise_placement(op.name, operands, form.shape, op.linearity);
  return form;
}

Numbers to_numbers(const std::vector<Scalar>& scalars) {
  Numbers numbers;
  std::ranges::copy(scalars, numbers.begin());
  return numbers;
}

}  // namespace

Scalar as_element(std::string_view name, const Scalar& value, DType dtype) {
  if (dtype == DType::boolean) return value.real() != 0;
  const auto refuse = [&] {
    ops::refuse_type(name, fmt::format("value cannot be converted to type {} without overflow: {}",
                                       torch_dtype_of(dtype), value.real()));
  };
  if (!is_integral(dtype)) {
    if (std::isfinite(value.real()) && std::abs(value.real()) > largest_of(dtype)) refuse();
    return value;
  }
  const double truncated = std::trunc(value.real());
  const bool is_whole = is_integral(value.type());
  const std::int64_t element = is_whole ? sim::to_whole_number(dtype, value.whole())
                                        : sim::to_whole_number(dtype, truncated);
  const bool fits = is_whole ? element == value.whole() : static_cast<double>(element) == truncated;
  const bool wraps = dtype == DType::u8 && truncated < 0 && truncated >= -largest_of(dtype);
  if (!fits && !wraps) refuse();
  return element;
}

void check_has_numbers(std::string_view name, const std::vector<Tensor>& operands) {
  const auto is_other = [](const Tensor& x) { return !x.defined() || x.dtype() != DType::boolean; };
  if (std::ranges::any_of(operands, is_other)) return;
  ops::refuse_type(name, fmt::format("\"{}\" not implemented for 'Bool'", name));
}

Tensor apply(const ElementwiseOperator& op, const std::vector<Tensor>& of,
             const std::vector<Scalar>& scalars) {
  const std::vector<Tensor> operands = contiguous(of);
  const ResultForm form = make_result_form(op, operands, scalars);
  const Numbers numbers = to_numbers(scalars);
  Tensor y = ops::map_to(op.name, form.shape, form.types.result, form.placement, operands,
                         make_forward(op, numbers, form.types));
  if (!ElementwiseBackward::is_needed(op, operands)) return y;
  ElementwiseBackward backward(op, operands, numbers);
  for (std::size_t i = 0; i < operands.size(); ++i) backward.save(i, operands[i]);
  backward.save_result(y);
  return autograd::record(op.name, std::move(y), operands, std::move(backward));
}

const Tensor& apply_in_place(const ElementwiseOperator& op, const Tensor& target,
                             const std::vector<Tensor>& others, const std::vector<Scalar>& scalars,
                             std::string_view called) {
  std::optional<runtime::NamedCall> call;
  if (target.defined() && !target.is_host()) {
    call.emplace(*target.storage()->simulation, called.empty() ? op.name : called,
                 called.empty() ? "_" : "");
  }
  std::vector<Tensor> operands = contiguous(others);
  operands.insert(operands.begin(), target);  // as it is: it may be strided
  ResultForm form = make_result_form(op, operands, scalars);
  const Numbers numbers = to_numbers(scalars);
  ops::check_can_cast(op.name, form.types.result, target);
  form.types.result = target.dtype();
  if (form.shape != target.shape()) {
    ops::refuse_shapes(op.name, fmt::format("output with shape {} doesn't match the broadcast "
                                            "shape {}",
                                            to_string(target.shape()), to_string(form.shape)));
  }
  if (form.placement != ops::placement_of(target)) {
    ops::refuse_placements(op.name, target, operands.back(),
                           "the result would lie otherwise than the tensor that it is written to");
  }
  const bool is_recorded = autograd::check_in_place(op.name, operands);
  if (runtime::is_strided(target)) {
    return target.copy_(apply(op, operands, scalars));
  }
  ElementwiseBackward backward(op, operands, numbers);
  const bool is_needed = is_recorded && ElementwiseBackward::is_needed(op, operands);
  for (std::size_t i = 0; is_needed && i < operands.size(); ++i) {
    // The graph saves a copy of an operand that the result overwrites, as torch does.
    const bool is_overwritten = runtime::share_elements(*target.storage(), *operands[i].storage());
    if (backward.needs_operand(i)) {
      backward.save(i, is_overwritten ? ops::make_copy(operands[i]) : operands[i]);
    }
  }
  ops::map_into(target, op.name, operands, make_forward(op, numbers, form.types));
  if (is_needed) backward.save_result(target);
  if (is_recorded) autograd::record_in_place(op.name, operands, std::move(backward));
  return target;
}

}  // namespace kernbench
