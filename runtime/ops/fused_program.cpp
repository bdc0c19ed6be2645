#include "runtime/ops/fused_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string_view>
#include <utility>

#include "runtime/tensor/memory_space.h"

namespace kernbench::ops {

namespace {

using runtime::StreamQueue;
using runtime::TensorMemory;

constexpr std::size_t kMostNames = 4;  // in the kernel's name

bool are_same(const KernelOperand& one, const KernelOperand& other) {
  const Tensor& a = one.tensor;
  const Tensor& b = other.tensor;
  return one.is_whole == other.is_whole && a.storage()->memory == b.storage()->memory &&
         a.shape() == b.shape() && a.storage()->elements() == b.storage()->elements() &&
         a.dp() == b.dp();
}

// While it lives, the memories have places and no deferred values.  Unless it is kept, it gives the
// values back: who needs them computes them again, and sees the same error.
class Placed {
 public:
  explicit Placed(const std::vector<const Expression*>& values) {
    for (const Expression* const value : values) {
      TensorMemory& memory = value->memory();
      try {
        take_space(memory);
      } catch (...) {
        give_back();
        end();
        throw;
      }
      all_.push_back({&memory, std::exchange(memory.deferred, nullptr)});
      versions_.emplace_back(memory);
      // The kernel's own stores must not make deferred readers of this memory compute first: they
      // wait for just this value.
      memory.is_first_write = true;
    }
  }
  ~Placed() {
    if (!is_kept_) give_back();
    end();
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  void keep() { is_kept_ = true; }

 private:
  struct One {
    TensorMemory* memory;
    std::shared_ptr<runtime::DeferredValue> value;
  };
  void give_back() {
    for (One& one : all_) {
      free_space(*one.memory);
      one.memory->deferred = std::move(one.value);
    }
  }

  void end() {
    for (const One& one : all_) one.memory->is_first_write = false;
  }

  std::vector<One> all_;
  std::deque<runtime::PreservedVersion> versions_;  // autograd sees no change
  bool is_kept_ = false;
};

// While it lives, a stream is current on its device.
class OnStream {
 public:
  OnStream(runtime::Simulation& simulation, const std::shared_ptr<StreamQueue>& stream)
      : simulation_(simulation),
        outer_(runtime::shared_current_stream(simulation, stream->device())) {
    set_current_stream(simulation_, stream);
  }
  ~OnStream() { set_current_stream(simulation_, outer_); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  runtime::Simulation& simulation_;
  const std::shared_ptr<StreamQueue> outer_;
};

}  // namespace

std::ptrdiff_t FusedProgram::find_or_add(const KernelOperand& operand) {
  if (const Expression* const deferred = expression_of(operand.tensor)) {
    return find_or_add(*deferred);
  }
  // Operands that several steps share are loaded once.
  const auto found = std::ranges::find_if(
      loads_, [&](const KernelOperand& load) { return are_same(load, operand); });
  const std::ptrdiff_t index = found - loads_.begin();
  if (found == loads_.end()) loads_.push_back(operand);
  return -1 - index;
}

std::ptrdiff_t FusedProgram::find_or_add(const Expression& expression) {
  const auto found = std::ranges::find(steps_, &expression);
  if (found != steps_.end()) return found - steps_.begin();
  std::vector<std::ptrdiff_t> operands;
  const std::vector<Tensor>& tensors = expression.by.operands;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    operands.push_back(find_or_add({tensors[i], i >= tensors.size() - expression.by.whole}));
  }
  // A step comes after the steps that make its operands, so the kernel can run them in this order.
  steps_.push_back(&expression);
  operands_.push_back(std::move(operands));
  return std::ssize(steps_) - 1;
}

void FusedProgram::add(const Expression& wanted) {
  find_or_add(wanted);
  if (std::ranges::count(results_, &wanted) == 0) results_.push_back(&wanted);
}

bool FusedProgram::shares_loads_with(const FusedProgram& other) const {
  return std::ranges::any_of(loads_, [&](const KernelOperand& load) {
    return std::ranges::any_of(
        other.loads_, [&](const KernelOperand& of_other) { return are_same(load, of_other); });
  });
}

FusedKernel FusedProgram::kernel() const {
  const auto slot = [&](std::ptrdiff_t number) {
    return number < 0 ? static_cast<std::size_t>(-1 - number)
                      : loads_.size() + static_cast<std::size_t>(number);
  };
  std::vector<FusedKernel::Step> steps;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    steps.push_back({steps_[i]->by.function, {}, {}});
    for (const std::ptrdiff_t operand : operands_[i]) steps[i].operands.push_back(slot(operand));
  }
  std::vector<std::size_t> results;
  for (const Expression* const result : results_) {
    results.push_back(slot(std::ranges::find(steps_, result) - steps_.begin()));
  }
  return {loads_.size(), std::move(steps), std::move(results)};
}

// "fused_mul_add", as TorchInductor names kernels; of a single operator its own name.
std::string FusedProgram::name() const {
  if (steps_.size() == 1) return steps_.front()->by.name;
  std::string text = "fused";
  std::vector<std::string_view> names;
  for (const Expression* const step : steps_) {
    if (std::ranges::count(names, step->by.name) > 0) continue;
    names.push_back(step->by.name);
    if (names.size() <= kMostNames) text += fmt::format("_{}", step->by.name);
  }
  return text;
}

Domain FusedProgram::domain() const {
  Domain domain{results_.front()->form.shape};
  for (const Expression* const step : steps_) {
    domain.along = std::max(domain.along, step->by.domain.along);
  }
  return domain;
}

// The kernel also stores some of the values that somebody holds: those that an operator along rows
// reads, which would otherwise be computed again, and those that have one element per row.
void FusedProgram::add_what_is_cheaper_stored() {
  const Expression::Form& form = results_.front()->form;
  const auto add_if_held = [&](const Expression& value) {
    if (value.form == form && value.is_held()) add(value);
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i]->is_column()) add_if_held(*steps_[i]);
    if (steps_[i]->by.domain.along == Along::elements) continue;
    for (const std::ptrdiff_t operand : operands_[i]) {
      if (operand >= 0) add_if_held(*steps_[static_cast<std::size_t>(operand)]);
    }
  }
}

// Blocks must have the rows that eager kernels add up at a time, also of several matrices, so they
// cannot be smaller where there are many values.
bool FusedProgram::can_fold() const {
  constexpr std::size_t kMostValues = 28;  // about half of scratch
  const Shape& shape = results_.front()->form.shape;
  if (shape.rank() > 2 && domain().along == Along::matrices) return false;
  bool has_rows = false;
  for (const KernelOperand& load : loads_) {
    if (load.is_whole) continue;
    const Shape& own = load.tensor.shape();
    const bool is_row = std::all_of(own.begin(), own.rank() == 0 ? own.end() : own.end() - 1,
                                    [](std::int64_t size) { return size == 1; });
    if (!has_rows_of(shape, own) && !is_row) return false;
    has_rows = has_rows || has_rows_of(shape, own);
  }
  return has_rows && kernel().most_values() <= kMostValues;
}

void FusedProgram::launch_into(const std::vector<Tensor>& results) const {
  const FusedKernel fused = kernel();
  if (!folds()) {
    return map_all_into(results, name(), loads_, fused, fused.most_values(), domain());
  }
  std::vector<Fold> folds;
  for (const Expression* const result : results_) folds.push_back(*result->by.fold);
  fold_all_into(results, name(), loads_, fused, folds, domain());
}

void FusedProgram::launch() {
  if (!folds()) add_what_is_cheaper_stored();
  std::vector<Tensor> results;
  for (const Expression* const result : results_) results.push_back(result->result());
  runtime::Simulation& simulation = *results.front().storage()->simulation;
  const OnStream on_stream(simulation, results_.front()->form.stream);
  Placed placed(results_);
  launch_into(results);
  placed.keep();
}

}  // namespace kernbench::ops
