// The values that one kernel is to compute, and what it needs for that.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/ops/expression.h"
#include "runtime/ops/fused_kernel.h"

namespace kernbench::ops {

class FusedProgram {
 public:
  void add(const Expression& wanted);
  void use(const std::vector<Tensor>& operands) {
    for (const Tensor& operand : operands) find_or_add({operand});
  }
  bool shares_loads_with(const FusedProgram& other) const;
  KernelSize size() const { return {steps_.size(), loads_.size()}; }
  // True if it is a kernel's.
  bool fits() const { return size().fits() && (!folds() || can_fold()); }
  void launch();

 private:
  // Loads are numbered down from -1 and steps up from 0 until their numbers are known.
  std::ptrdiff_t find_or_add(const KernelOperand& operand);
  std::ptrdiff_t find_or_add(const Expression& expression);
  void add_what_is_cheaper_stored();
  bool folds() const { return !results_.empty() && results_.front()->form.folds; }
  bool can_fold() const;
  void launch_into(const std::vector<Tensor>& results) const;
  Domain domain() const;
  FusedKernel kernel() const;
  std::string name() const;

  std::vector<KernelOperand> loads_;
  std::vector<const Expression*> steps_;
  std::vector<std::vector<std::ptrdiff_t>> operands_;  // of the steps
  std::vector<const Expression*> results_;
};

}  // namespace kernbench::ops
