#include "runtime/ops/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "runtime/ops/fused_kernel.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::ops {

namespace {

using runtime::StreamQueue;
using runtime::TensorMemory;

// A kernel's limits.  What does not fit any more begins another one.
constexpr std::size_t kMostSteps = 64;
constexpr std::size_t kMostLoads = 16;
constexpr std::size_t kMostNames = 4;  // in the kernel's name

// What a kernel computes and loads.
struct Size {
  std::size_t steps = 0;
  std::size_t loads = 0;

  bool fits() const { return loads <= kMostLoads && steps <= kMostSteps; }
};

// A deferred value: an operator and its operands, whose values may be deferred too.
class Expression final : public runtime::DeferredValue {
 public:
  struct Form {
    Shape shape;
    Placement placement;
    std::shared_ptr<StreamQueue> stream;  // on which it was issued

    friend bool operator==(const Form&, const Form&) = default;
  };

  struct Operator {
    std::string name;
    Form form;
    std::vector<Tensor> operands;
    BlockFunction function;
    Size size;                               // at most, of a kernel that computes it
    std::shared_ptr<Fusion::Values> joined;  // null: it is computed alone
  };

  Expression(TensorMemory& memory, Operator computed_by)
      : by(std::move(computed_by)), memory_(memory) {
    for (const Tensor& operand : by.operands) {
      ++operand.storage()->deferred_handles;
      operand.storage()->memory->deferred_readers.push_back(this);
    }
  }
  ~Expression() override {
    for (const Tensor& operand : by.operands) {
      --operand.storage()->deferred_handles;
      auto& readers = operand.storage()->memory->deferred_readers;
      readers.erase(std::ranges::find(readers, this));
    }
  }

  void compute() override;
  Tensor result() const;
  TensorMemory& memory() const { return memory_; }

  const Operator by;

 private:
  TensorMemory& memory_;  // owns this
};

// Returns how a tensor's value is deferred; null if it is not.
const Expression* expression_of(const Tensor& tensor) {
  return static_cast<const Expression*>(tensor.storage()->memory->deferred.get());
}

// A handle to the tensor that the value is written to.  The first one may be gone.
Tensor Expression::result() const {
  const Tensor::Storage& first = *memory_.tensors.front();
  const DPPolicy dp = *policy_of(by.form.placement, by.form.shape.rank());
  auto shards = place(dp, by.form.shape, first.simulation->machine().topology(), first.device);
  return Tensor(runtime::make_view_storage(first, by.form.shape, dp, std::move(shards)));
}

// The values that a kernel is to compute, and what it needs for that.
class Program {
 public:
  void add(const Expression& wanted);
  void use(const std::vector<Tensor>& operands) {
    for (const Tensor& operand : operands) number_of(operand);
  }
  bool shares_loads_with(const Program& other) const;
  bool fits() const { return size().fits(); }
  Size size() const { return {steps_.size(), loads_.size()}; }
  void launch();

 private:
  // Loads are numbered down from -1 and steps up from 0 until their numbers are known.
  std::ptrdiff_t number_of(const Tensor& operand);
  std::ptrdiff_t number_of(const Expression& expression);
  FusedKernel kernel() const;
  std::string name() const;

  std::vector<Tensor> loads_;
  std::vector<const Expression*> steps_;
  std::vector<std::vector<std::ptrdiff_t>> operands_;  // of the steps
  std::vector<const Expression*> results_;
};

bool have_same_elements(const Tensor& a, const Tensor& b) {
  return a.storage()->memory == b.storage()->memory && a.shape() == b.shape() &&
         a.storage()->elements() == b.storage()->elements() && a.dp() == b.dp();
}

std::ptrdiff_t Program::number_of(const Tensor& operand) {
  if (const Expression* const deferred = expression_of(operand)) return number_of(*deferred);
  const auto found = std::ranges::find_if(
      loads_, [&](const Tensor& load) { return have_same_elements(load, operand); });
  const std::ptrdiff_t index = found - loads_.begin();
  if (found == loads_.end()) loads_.push_back(operand);
  return -1 - index;
}

std::ptrdiff_t Program::number_of(const Expression& expression) {
  const auto found = std::ranges::find(steps_, &expression);
  if (found != steps_.end()) return found - steps_.begin();
  std::vector<std::ptrdiff_t> operands;
  for (const Tensor& operand : expression.by.operands) operands.push_back(number_of(operand));
  steps_.push_back(&expression);
  operands_.push_back(std::move(operands));
  return std::ssize(steps_) - 1;
}

void Program::add(const Expression& wanted) {
  number_of(wanted);
  if (std::ranges::count(results_, &wanted) == 0) results_.push_back(&wanted);
}

bool Program::shares_loads_with(const Program& other) const {
  return std::ranges::any_of(loads_, [&](const Tensor& load) {
    return std::ranges::any_of(
        other.loads_, [&](const Tensor& of_other) { return have_same_elements(load, of_other); });
  });
}

FusedKernel Program::kernel() const {
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
std::string Program::name() const {
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

void Program::launch() {
  std::vector<Tensor> results;
  for (const Expression* const result : results_) results.push_back(result->result());
  runtime::Simulation& simulation = *results.front().storage()->simulation;
  const OnStream on_stream(simulation, results_.front()->by.form.stream);
  const std::string text = name();
  const FusedKernel fused = kernel();
  Placed placed(results_);
  map_all_into(results, text, loads_, fused, fused.most_values());
  placed.keep();
}

// Returns a program that computes the memory's deferred value; none if it is computed by then.  A
// value that has been deferred while its operands shared what they load needs more loads once the
// operands' own operands are computed.  What does not fit any more has operands computed first.
std::optional<Program> fitting_program(const TensorMemory& memory) {
  const std::shared_ptr<runtime::DeferredValue> value = memory.deferred;
  if (value == nullptr) return std::nullopt;
  const auto& wanted = static_cast<const Expression&>(*value);
  Program program;
  program.add(wanted);
  for (const Tensor& operand : wanted.by.operands) {
    if (program.fits()) break;
    compute_deferred(*operand.storage()->memory);
    if (memory.deferred == nullptr) return std::nullopt;  // the operand's kernel has joined it
    program = Program();
    program.add(wanted);
  }
  return program;
}

void Expression::compute() {
  std::optional<Program> fitting = fitting_program(memory_);
  if (!fitting) return;
  Program& program = *fitting;
  if (by.joined != nullptr) {
    for (const auto& weak : *by.joined) {
      const std::shared_ptr<Tensor::Storage> other = weak.lock();
      if (other == nullptr || other->memory.get() == &memory_) continue;
      const auto* const value = static_cast<const Expression*>(other->memory->deferred.get());
      const bool is_held = runtime::handles_of_host(*other) - other->deferred_handles > 1;
      if (value == nullptr || !is_held || !(value->by.form == by.form)) continue;
      Program alone;
      alone.add(*value);
      Program both = program;
      both.add(*value);
      if (program.shares_loads_with(alone) && both.fits()) program = std::move(both);
    }
  }
  program.launch();
}

// True if a kernel that needs the operand can compute its deferred value: blocks of one are blocks
// of the other.
bool is_alike(const Tensor& operand, const Expression& value, const Expression::Form& form) {
  return operand.shape() == value.by.form.shape && value.by.form.stream == form.stream &&
         placement_of(operand) == value.by.form.placement;
}

void compute_all(const std::vector<Tensor>& operands) {
  for (const Tensor& operand : operands) compute_deferred(*operand.storage()->memory);
}

// Returns the size of a kernel that computes an operator of these operands, at most, for whose sake
// their values may be computed now.
Size size_with(const std::vector<Tensor>& operands) {
  Size sum{.steps = 1, .loads = 0};
  Program program;
  for (const Tensor& operand : operands) {
    const Expression* const deferred = expression_of(operand);
    const Size own = deferred == nullptr ? Size{0, 1} : deferred->by.size;
    sum = {sum.steps + own.steps, sum.loads + own.loads};
  }
  if (sum.fits()) return sum;
  program.use(operands);  // which counts what operands share only once
  const Size exact{program.size().steps + 1, program.size().loads};
  if (exact.fits()) return exact;
  compute_all(operands);
  return {1, operands.size()};
}

}  // namespace

Fusion::Fusion(Joins joins) : joined_(joins == Joins::yes ? std::make_shared<Values>() : nullptr) {}

Tensor Fusion::defer(std::string_view name, const Shape& shape, DType dtype,
                     const Placement& placement, const std::vector<Tensor>& operands,
                     const BlockFunction& function) const {
  runtime::Simulation& simulation = *operands.front().storage()->simulation;
  Expression::Form form{shape, placement,
                        runtime::shared_current_stream(simulation, placement.device)};
  for (const Tensor& operand : operands) {
    runtime::check_is_contiguous(operand, name);
    runtime::check_may_defer(operand, runtime::Touch::uses, [&] { return std::string(name); });
    const Expression* const value = expression_of(operand);
    if (value != nullptr && !is_alike(operand, *value, form)) compute_all({operand});
  }
  Tensor result = make_unplaced_like(operands.front(), name, shape, dtype, placement);
  result.storage()->memory->deferred = std::make_shared<Expression>(
      *result.storage()->memory, Expression::Operator{std::string(name), std::move(form), operands,
                                                      function, size_with(operands), joined_});
  if (joined_ != nullptr) {
    std::erase_if(*joined_, [](const auto& weak) { return weak.expired(); });
    joined_->push_back(result.storage());
  }
  return result;
}

Fusion* fusion_of(const Tensor& tensor) {
  return tensor.storage()->simulation->local().fusion;
}

FusionScope::FusionScope(runtime::Simulation& simulation, Fusion* fusion)
    : local_(simulation.local()), outer_(std::exchange(local_.fusion, fusion)) {}

void compute(const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].is_host()) continue;
    std::optional<Program> fitting = fitting_program(*tensors[i].storage()->memory);
    if (!fitting) continue;
    Program& program = *fitting;
    const Expression* const first = expression_of(tensors[i]);
    for (std::size_t j = i + 1; j < tensors.size(); ++j) {
      if (!tensors[j].defined() || tensors[j].is_host()) continue;
      const Expression* const other = expression_of(tensors[j]);
      if (other == nullptr || !(other->by.form == first->by.form)) continue;
      Program both = program;
      both.add(*other);
      if (both.fits()) program = std::move(both);
    }
    program.launch();
  }
}

}  // namespace kernbench::ops
