// Operators that are computed later, and then several of them by one kernel (ADR-0242).
//
// While a FusionScope lives, map_to(), map_rows(), reduced() and embedding() return tensors whose
// values are deferred: they have no place in HBM.  Whatever needs such a value, such as another
// kernel, a collective or a host read, has it computed first, by one kernel that computes from
// tensors in HBM all deferred values that it depends on.  It stores the value itself, and what else
// is cheaper to store than to compute again; the others stay deferred, and whoever needs one of
// them computes it again.  Each value is rounded to its type as if it had been stored.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fiber/fiber_local.h"
#include "runtime/ops/elements.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::ops {

// An operator whose value may be computed later.
struct Operation {
  std::string name;
  Domain domain;  // what its kernel would go through
  Shape shape;  // of the result: that of the domain, one element for each of its rows, or a fold's
  DType dtype = DType::f32;
  Placement placement;
  std::vector<Tensor> operands;
  RowFunction function;
  std::size_t whole = 0;                    // as many of the last operands are loaded whole
  std::optional<Fold> fold = std::nullopt;  // puts together what the function computes
};

// Where the values of a compiled call, or of its backward, are deferred.
class Fusion : public runtime::Deferral {
 public:
  // If `yes`, the kernel that computes a value also computes the other values of this fusion that
  // are still referred to, lie as it does and use some of its operands.
  enum class Joins { no, yes };
  explicit Fusion(Joins joins = Joins::no);

  // Returns a tensor with the value that the operator's kernel would compute now.
  // REQUIRES: the function owns what it uses; if the blocks are along rows, may_defer_rows() of an
  // operand with the domain's rows
  Tensor defer(Operation operation) const;

  using Values = std::vector<std::weak_ptr<Tensor::Storage>>;

 private:
  std::shared_ptr<Values> joined_;  // in their order; null: no value is joined
};

// True if a kernel can keep whole rows of all its values in scratch: the last dimension is not cut,
// has several elements, and as f32 they take at most 1/128 of it.
bool may_defer_rows(const Tensor& x);
// The same is asked for a domain that has no such operand yet.
bool may_defer_rows(const runtime::Simulation& simulation, const Shape& shape,
                    const Placement& placement);

// The fusion in which the caller's operators on this tensor are deferred; null: each is a kernel.
Fusion* fusion_of(const Tensor& tensor);

// While it lives, `fusion` (a Fusion) is the caller's; null: none is.
class FusionScope {
 public:
  FusionScope(runtime::Simulation& simulation, runtime::Deferral* fusion);
  ~FusionScope() { local_.deferral = outer_; }
  FusionScope(const FusionScope&) = delete;
  FusionScope& operator=(const FusionScope&) = delete;

 private:
  runtime::FiberLocal& local_;
  runtime::Deferral* const outer_;
};

// Computes those of these tensors that are deferred, together where they lie alike.
void compute(const std::vector<Tensor>& tensors);

}  // namespace kernbench::ops
