#include "runtime/functional/elementwise_operator.h"

#include <fmt/format.h>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/in_place.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/reduce.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using Blocks = std::span<const tl::Tensor>;

// Returns the blocks in the type that a function computes in.
std::vector<tl::Tensor> blocks_for(tl::Context& tl, Computes computes, Blocks blocks) {
  std::vector<tl::Tensor> made(blocks.begin(), blocks.end());
  if (computes == Computes::in_f32) {
    for (tl::Tensor& block : made) block = tl.cast(block, DType::f32);
  }
  return made;
}

ops::BlockFunction forward_of(const ElementwiseOperator& op, const Numbers& numbers, DType dtype) {
  // Operators are constants.
  return ops::Owning([&op, numbers, dtype](tl::Context& tl, Blocks blocks) {
    const std::vector<tl::Tensor> own = blocks_for(tl, op.computes, blocks);
    Elements elements{.tl = tl, .numbers = numbers};
    for (std::size_t i = 0; i < own.size(); ++i) elements.operands[i] = &own[i];
    return tl.cast(op.forward(elements), dtype);
  });
}

// What a derivative computes from the blocks of dy and of those tensors that it needs, in the order
// of the bits.
ops::BlockFunction gradient_of(const Derivative& derivative, const Numbers& numbers, DType dtype) {
  return ops::Owning([&derivative, numbers, dtype](tl::Context& tl, Blocks blocks) {
    const std::vector<tl::Tensor> own = blocks_for(tl, derivative.computes, blocks);
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
      shapes_.push_back(operands[i].shape());
      wanted_[i] = op.derivatives[i].exists() && needs_grad(operands[i]);
      if (wanted_[i]) needs_ |= op.derivatives[i].needs;
    }
    saved_.resize(operands.size());
  }

  bool is_needed() const { return std::ranges::find(wanted_, true) != wanted_.end(); }
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
      if (wanted_[i]) gradients[i] = ops::sum_to(shapes_[i], gradient(dy, op_->derivatives[i]));
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
                    operands, gradient_of(derivative, numbers_, dy.dtype()));
  }

  const ElementwiseOperator* op_;
  Numbers numbers_;
  std::vector<bool> wanted_;
  std::vector<Shape> shapes_;
  unsigned needs_ = needs::kNothing;
  std::vector<SavedTensor> saved_;
  SavedTensor result_;
};

struct ResultForm {
  Shape shape;
  DType dtype = DType::f32;
  ops::Placement placement;
};

// Checks the operands.
ResultForm form_of(const ElementwiseOperator& op, const std::vector<Tensor>& operands) {
  if (op.has_mask) {
    ops::check_holders(op.name, operands);
    ops::check_operands(op.name, {operands.begin() + 1, operands.end()});
  } else {
    ops::check_operands(op.name, operands);
  }
  ResultForm form{ops::broadcast_shape(op.name, operands), operands.back().dtype(), {}};
  form.placement = ops::elementwise_placement(op.name, operands, form.shape, op.linearity);
  return form;
}

// All but the target, which may be strided, are made contiguous.
std::vector<Tensor> operands_in_place(const std::vector<Tensor>& of) {
  std::vector<Tensor> operands = of;
  for (std::size_t i = 1; i < operands.size(); ++i) operands[i] = contiguous(operands[i]);
  return operands;
}

}  // namespace

Tensor apply(const ElementwiseOperator& op, const std::vector<Tensor>& of, const Numbers& numbers) {
  const std::vector<Tensor> operands = contiguous(of);
  const ResultForm form = form_of(op, operands);
  Tensor y = ops::map_to(op.name, form.shape, form.dtype, form.placement, operands,
                         forward_of(op, numbers, form.dtype));
  ElementwiseBackward backward(op, operands, numbers);
  if (!backward.is_needed()) return y;
  for (std::size_t i = 0; i < operands.size(); ++i) backward.save(i, operands[i]);
  backward.save_result(y);
  return autograd::record(op.name, std::move(y), operands, std::move(backward));
}

void apply_in_place(const ElementwiseOperator& op, const std::vector<Tensor>& of,
                    const Numbers& numbers) {
  const std::vector<Tensor> operands = operands_in_place(of);
  const ResultForm form = form_of(op, operands);
  const Tensor& target = operands.front();
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
    Tensor(target).copy_(apply(op, operands, numbers));
    return;
  }
  ElementwiseBackward backward(op, operands, numbers);
  const bool is_needed = is_recorded && backward.is_needed();
  for (std::size_t i = 0; is_needed && i < operands.size(); ++i) {
    // The graph saves a copy of an operand that the result overwrites, as torch does.
    const bool is_overwritten = runtime::share_elements(*target.storage(), *operands[i].storage());
    if (backward.needs_operand(i)) {
      backward.save(i, is_overwritten ? ops::copy_of(operands[i]) : operands[i]);
    }
  }
  ops::map_into(target, op.name, operands, forward_of(op, numbers, form.dtype));
  if (is_needed) backward.save_result(target);
  if (is_recorded) autograd::record_in_place(op.name, operands, std::move(backward));
}

}  // namespace kernbench
