// Handles to values in a PE's scratch memory, for kernels.

#pragma once

#include <string>
#include <string_view>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/shape.h"
#include "sim_engine/components/tile_handle.h"

namespace kernbench::tl {

class Context;
class Tensor;

// The handles of one kernel, in an order that depends on the kernel's code alone.
class HandleList {
 public:
  HandleList() = default;
  HandleList(const HandleList&) = delete;
  HandleList& operator=(const HandleList&) = delete;
  ~HandleList() { void_all(); }

  // Makes all handles that still exist void.
  void void_all();

 private:
  friend class Context;
  friend class Tensor;
  void add(Tensor& handle);
  void remove(Tensor& handle);

  Tensor* oldest_ = nullptr;
  Tensor* youngest_ = nullptr;
};

// A value in this PE's scratch memory (TCM), which is freed with the last handle.  A handle is
// void once its kernel has ended, or it was moved from.  Using a void handle, or a handle in
// another kernel or on another PE, is refused (KB-K023).
class Tensor {
 public:
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() { let_go(); }

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

 private:
  friend class Context;
  friend class HandleList;
  // `made_by` is the name of the operation, e.g. "tl.load"; a literal.
  Tensor(Context& context, const Shape& shape, sim::Tile tile, std::string_view made_by);

  void let_go();
  void take_over(Tensor& other) noexcept;

  Context* context_ = nullptr;  // null: void
  Shape shape_;
  sim::Tile tile_;
  DType dtype_ = DType::f32;
  std::string_view made_by_;
  // Links in the list of its kernel's handles, unless it is void.
  Tensor* previous_ = nullptr;
  Tensor* next_ = nullptr;
};

// "[4, 8] f16"
std::string describe(const Tensor& tensor);

}  // namespace kernbench::tl
