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
    for (const Tensor& operand : operands) number_of(operand);
  }
  bool shares_loads_with(const FusedProgram& other) const;
  KernelSize size() const { return {steps_.size(), loads_.size()}; }
  void launch();

 private:
  // Loads are numbered down from -1 and steps up from 0 until their numbers are known.
  std::ptrdiff_t number_of(const Tensor& operand);
  std::ptrdiff_t number_of(const Expression& expression);
  void add_what_is_cheaper_stored();
  Domain domain() const;
  FusedKernel kernel() const;
  std::string name() const;

  std::vector<Tensor> loads_;
  std::vector<const Expression*> steps_;
  std::vector<std::vector<std::ptrdiff_t>> operands_;  // of the steps
  std::vector<const Expression*> results_;
};

}  // namespace kernbench::ops
