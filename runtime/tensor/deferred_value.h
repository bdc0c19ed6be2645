// Values of tensors that are computed when something needs them (ADR-0242).

#pragma once

namespace kernbench::runtime {

struct TensorMemory;

// Computes the value of a memory that has no place in HBM yet.
class DeferredValue {
 public:
  DeferredValue() = default;
  virtual ~DeferredValue() = default;
  DeferredValue(const DeferredValue&) = delete;
  DeferredValue& operator=(const DeferredValue&) = delete;

  // Gives the memory a place and issues the kernel that computes its value; the memory then no
  // longer refers to this object.
  virtual void compute() = 0;
};

// To be called before something uses the value of a memory: computes it if it is deferred.
void compute_deferred(const TensorMemory& memory);
// Computes the memory's value, and all deferred ones that read it.  It is called before something
// writes into the memory.
void compute_before_write(const TensorMemory& memory);

}  // namespace kernbench::runtime
