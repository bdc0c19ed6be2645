// A deferred value: an operator and its operands, whose values may be deferred too.

#pragma once

#include <memory>

#include "runtime/ops/fusion.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::ops {

// The size of a kernel.  An operation that does not fit any more begins another kernel.
struct KernelSize {
  static constexpr std::size_t kMostSteps = 64;
  static constexpr std::size_t kMostLoads = 16;

  std::size_t steps = 0;
  std::size_t loads = 0;

  bool fits() const { return loads <= kMostLoads && steps <= kMostSteps; }
};

class Expression final : public runtime::DeferredValue {
 public:
  // All values that one kernel computes have the same form.
  struct Form {
    Shape shape;                                   // of the domain
    Placement placement;                           // of the domain
    std::shared_ptr<runtime::StreamQueue> stream;  // on which it was issued
    bool folds = false;                            // its values are put together of all blocks

    friend bool operator==(const Form&, const Form&) = default;
  };

  // `size`: at most, of a kernel that computes it.  `joined` is null if it is computed alone.
  Expression(runtime::TensorMemory& memory, Operation computed_by, Form its_form,
             const KernelSize& size, std::shared_ptr<Fusion::Values> joined);
  ~Expression() override;

  void compute() override;
  // A handle to the tensor that the value is written to, which is the whole memory.  The first one
  // may be gone, and only views of parts of it be left.
  Tensor result() const;
  runtime::TensorMemory& memory() const { return memory_; }
  // True if others than deferred values have handles to it.
  bool is_held() const;
  // True if it has one element for each row of its domain.
  bool is_column() const { return !form.folds && by.shape != form.shape; }

  const Operation by;
  const Form form;
  const KernelSize size;

 private:
  const std::shared_ptr<Fusion::Values> joined_;
  runtime::TensorMemory& memory_;  // owns this
};

// Returns how a tensor's value is deferred; null if it is not.
inline const Expression* expression_of(const Tensor& tensor) {
  return static_cast<const Expression*>(tensor.storage()->memory->deferred.get());
}

}  // namespace kernbench::ops
