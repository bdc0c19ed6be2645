#include "runtime/ops/fusion.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/ops/expression.h"
#include "runtime/ops/fused_program.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::ops {

Expression::Expression(runtime::TensorMemory& memory, Operation computed_by, Form its_form,
                       const KernelSize& its_size, std::shared_ptr<Fusion::Values> joined)
    : by(std::move(computed_by)),
      form(std::move(its_form)),
      size(its_size),
      joined_(std::move(joined)),
      memory_(memory) {
  for (const Tensor& operand : by.operands) {
    ++operand.storage()->deferred_handles;
    operand.storage()->memory->deferred_readers.push_back(this);
  }
}

Expression::~Expression() {
  for (const Tensor& operand : by.operands) {
    --operand.storage()->deferred_handles;
    auto& readers = operand.storage()->memory->deferred_readers;
    readers.erase(std::ranges::find(readers, this));
  }
}

Tensor Expression::result() const {
  const Tensor::Storage& first = *memory_.tensors.front();
  const DPPolicy dp = *to_policy(by.placement, by.shape.rank());
  auto shards = place(dp, by.shape, first.simulation->machine().topology(), first.device);
  auto whole = runtime::make_view_storage(first, by.shape, dp, std::move(shards));
  // The memory belongs to the result alone, even if the handle that is left shows only a part of
  // it.
  whole->first = 0;
  whole->span = 0;
  whole->part.clear();
  return Tensor(std::move(whole));
}

bool Expression::is_held() const {
  return std::ranges::any_of(memory_.tensors, [](const Tensor::Storage* tensor) {
    return runtime::handles_of_host(*tensor) > tensor->deferred_handles;
  });
}

namespace {

// Returns a program that computes the memory's deferred value; none if it is computed by then.  A
// value that has been deferred while its operands shared what they load needs more loads once the
// operands' own operands are computed.  If the program no longer fits, operands are computed first
// by kernels of their own.
std::optional<FusedProgram> fitting_program(const runtime::TensorMemory& memory) {
  const std::shared_ptr<runtime::DeferredValue> value = memory.deferred;
  if (value == nullptr) return std::nullopt;
  const auto& wanted = static_cast<const Expression&>(*value);
  FusedProgram program;
  program.add(wanted);
  for (const Tensor& operand : wanted.by.operands) {
    if (program.fits()) break;
    compute_deferred(*operand.storage()->memory);
    if (memory.deferred == nullptr) return std::nullopt;  // the operand's kernel has joined it
    program = FusedProgram();
    program.add(wanted);
  }
  return program;
}

}  // namespace

void Expression::compute() {
  std::optional<FusedProgram> fitting = fitting_program(memory_);
  if (!fitting) return;
  FusedProgram& program = *fitting;
  if (joined_ != nullptr) {
    for (const auto& weak : *joined_) {
      const std::shared_ptr<Tensor::Storage> other = weak.lock();
      if (other == nullptr || other->memory.get() == &memory_) continue;
      const auto* const value = static_cast<const Expression*>(other->memory->deferred.get());
      // The handle that `lock()` returned above is one of them, so a value is held from the second
      // on.
      const bool is_held = runtime::handles_of_host(*other) - other->deferred_handles > 1;
      if (value == nullptr || !is_held || !(value->form == form)) continue;
      FusedProgram alone;
      alone.add(*value);
      FusedProgram both = program;
      both.add(*value);
      // A joint kernel pays only if it saves loads; without common loads two kernels take as long.
      if (program.shares_loads_with(alone) && both.fits()) program = std::move(both);
    }
  }
  program.launch();
}

namespace {

// Returns the shape with one element for each row of `shape`.
Shape to_column_shape(const Shape& shape) {
  return with_size(shape, shape.rank() - 1, 1);
}

bool has_uncut_rows(const Placement& placement, const Shape& shape) {
  const Level last = cut(shape.rank() - 1);
  return shape.rank() > 0 && placement.cube != last && placement.pe != last;
}

// True if a kernel of this form can compute the deferred value: blocks of one are blocks of the
// other, or columns of them.
bool computes(const Expression::Form& form, const Expression& value) {
  if (value.form == form) return true;
  return has_uncut_rows(form.placement, form.shape) &&
         value.form == Expression::Form{to_column_shape(form.shape), form.placement, form.stream};
}

// The form of a kernel that computes an operator.  A value with one element per row is computed
// where the rows lie, if an operand has them.
Expression::Form make_form(const Operation& operation,
                           std::shared_ptr<runtime::StreamQueue> stream) {
  Expression::Form form{operation.domain.shape, operation.placement, std::move(stream)};
  if (operation.fold) {
    form.placement = placement_of(operation.operands.front());
    form.folds = true;
  }
  if (operation.domain.along != Along::elements || form.shape.rank() == 0) return form;
  for (const Tensor& operand : operation.operands) {
    const Expression* const value = expression_of(operand);
    if (value == nullptr || !value->is_column() || value->by.shape != form.shape) continue;
    Expression::Form of_rows{value->form.shape, form.placement, form.stream};
    if (value->form == of_rows) return of_rows;
  }
  return form;
}

// True if a kernel of this form that needs the operand can compute its deferred value.
bool is_alike(const Tensor& operand, const Expression& value, Expression::Form form) {
  form.folds = false;
  return operand.shape() == value.by.shape && placement_of(operand) == form.placement &&
         computes(form, value);
}

void compute_all(const std::vector<Tensor>& operands) {
  for (const Tensor& operand : operands) compute_deferred(*operand.storage()->memory);
}

// Returns the size of a kernel that computes an operator of these operands, at most, for whose sake
// their values may be computed now.
KernelSize size_with(const std::vector<Tensor>& operands) {
  KernelSize sum{.steps = 1, .loads = 0};
  FusedProgram program;
  for (const Tensor& operand : operands) {
    const Expression* const deferred = expression_of(operand);
    const KernelSize own = deferred == nullptr ? KernelSize{0, 1} : deferred->size;
    sum = {sum.steps + own.steps, sum.loads + own.loads};
  }
  if (sum.fits()) return sum;
  program.use(operands);  // which counts what operands share only once
  const KernelSize exact{program.size().steps + 1, program.size().loads};
  if (exact.fits()) return exact;
  compute_all(operands);
  return {1, operands.size()};
}

// Returns a function that gets blocks of whole rows: a block whose elements repeat along the rows
// has one column.  A block that is put together from all rows needs all of them, too.
RowFunction with_whole_rows(const Operation& operation) {
  std::vector<std::int64_t> widths;
  for (std::size_t i = 0; i + operation.whole < operation.operands.size(); ++i) {
    const Shape& shape = operation.operands[i].shape();
    widths.push_back(shape.rank() == 0 ? 1 : shape[shape.rank() - 1]);
  }
  return [function = operation.function, widths, folds = operation.fold.has_value()](
             tl::Context& tl, std::span<const tl::Tensor> of, const RowBlock& rows) {
    std::vector<tl::Tensor> whole(of.begin(), of.end());
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const Shape shape{folds ? rows.count : whole[i].shape()[0], widths[i]};
      if (whole[i].shape() != shape) {
        // Added to -0, any number stays as it is, and so does its sign.
        whole[i] = tl.full(shape, -0.0, whole[i].dtype()) + whole[i];
      }
    }
    return function(tl, whole, rows);
  };
}

}  // namespace

Fusion::Fusion(Joins joins) : joined_(joins == Joins::yes ? std::make_shared<Values>() : nullptr) {}

Tensor Fusion::defer(Operation operation) const {
  const std::vector<Tensor>& operands = operation.operands;
  runtime::Simulation& simulation = *operands.front().storage()->simulation;
  Expression::Form form =
      make_form(operation, runtime::shared_current_stream(simulation, operation.placement.device));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    runtime::check_is_contiguous(operands[i], operation.name);
    runtime::check_may_defer(operands[i], runtime::Touch::uses, [&] { return operation.name; });
    const Expression* const value = expression_of(operands[i]);
    const bool is_whole = i + operation.whole >= operands.size();
    // The operator's kernel cannot compute this operand on the way, so a kernel of its own does it
    // first.
    if (value != nullptr && (is_whole || !is_alike(operands[i], *value, form))) {
      compute_all({operands[i]});
    }
  }
  if (operation.domain.along != Along::elements) {
    operation.function = with_whole_rows(operation);
  }
  Tensor result = make_unplaced_like(operands.front(), operation.name, operation.shape,
                                     operation.dtype, operation.placement);
  const KernelSize size = size_with(operands);
  runtime::TensorMemory& memory = *result.storage()->memory;
  memory.deferred =
      std::make_shared<Expression>(memory, std::move(operation), std::move(form), size, joined_);
  if (joined_ != nullptr) {
    std::erase_if(*joined_, [](const auto& weak) { return weak.expired(); });
    joined_->push_back(result.storage());
  }
  return result;
}

bool may_defer_rows(const Tensor& x) {
  return may_defer_rows(*x.storage()->simulation, x.shape(), placement_of(x));
}

bool may_defer_rows(const runtime::Simulation& simulation, const Shape& shape,
                    const Placement& placement) {
  if (!has_uncut_rows(placement, shape)) return false;
  const Bytes scratch = simulation.machine().topology().pe.tcm.capacity;
  const std::int64_t columns = shape[shape.rank() - 1];
  // A fused kernel holds whole rows of many values at once.  Longer rows would not leave room for
  // them.
  return columns > 1 && columns <= scratch / (128 * size_of(DType::f32));
}

Fusion* fusion_of(const Tensor& tensor) {
  return static_cast<Fusion*>(tensor.storage()->simulation->local().deferral);
}

FusionScope::FusionScope(runtime::Simulation& simulation, runtime::Deferral* fusion)
    : local_(simulation.local()), outer_(std::exchange(local_.deferral, fusion)) {}

void compute(const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].is_host()) continue;
    std::optional<FusedProgram> fitting = fitting_program(*tensors[i].storage()->memory);
    if (!fitting) continue;
    FusedProgram& program = *fitting;
    const Expression* const first = expression_of(tensors[i]);
    for (std::size_t j = i + 1; j < tensors.size(); ++j) {
      if (!tensors[j].defined() || tensors[j].is_host()) continue;
      const Expression* const other = expression_of(tensors[j]);
      if (other == nullptr || !(other->form == first->form)) continue;
      FusedProgram both = program;
      both.add(*other);
      if (both.fits()) program = std::move(both);
    }
    program.launch();
  }
}

}  // namespace kernbench::ops
