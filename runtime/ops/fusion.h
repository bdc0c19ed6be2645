// Elementwise operators that are computed later, and then several of them by one kernel (ADR-0242).
//
// While a FusionScope lives, map_to() returns tensors whose values are deferred: they have no place
// in HBM.  Whatever needs such a value, such as another kernel, a collective or a host read, has it
// computed first, by one kernel that computes from tensors in HBM all deferred values that it
// depends on.  Only the value itself is stored; the others stay deferred, and whoever needs one of
// them computes it again.  Each value is rounded to its type as if it had been stored.

#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/fiber/fiber_local.h"
#include "runtime/ops/elements.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::ops {

// Where the values of a compiled call, or of its backward, are deferred.
class Fusion {
 public:
  // Whether the kernel that computes a value also computes the other values of this fusion that
  // somebody has a handle to, as far as they lie as it does and use some of its operands.
  enum class Joins { no, yes };
  explicit Fusion(Joins joins = Joins::no);

  // Returns a tensor with the value that map_to() would compute now.
  // REQUIRES: function.owns()
  Tensor defer(std::string_view name, const Shape& shape, DType dtype, const Placement& placement,
               const std::vector<Tensor>& operands, const BlockFunction& function) const;

  using Values = std::vector<std::weak_ptr<Tensor::Storage>>;

 private:
  std::shared_ptr<Values> joined_;  // in their order; null: no value is joined
};

// The fusion in which the caller's operators on this tensor are deferred; null: each is a kernel.
Fusion* fusion_of(const Tensor& tensor);

// While it lives, `fusion` is the caller's; null: none is.
class FusionScope {
 public:
  FusionScope(runtime::Simulation& simulation, Fusion* fusion);
  ~FusionScope() { local_.fusion = outer_; }
  FusionScope(const FusionScope&) = delete;
  FusionScope& operator=(const FusionScope&) = delete;

 private:
  runtime::FiberLocal& local_;
  Fusion* const outer_;
};

// Computes those of these tensors that are deferred, together where they lie alike.
void compute(const std::vector<Tensor>& tensors);

}  // namespace kernbench::ops
