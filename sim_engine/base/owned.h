// A pointer to what a class is made of, where the class's users need not know it.

#pragma once

#include "sim_engine/base/memory.h"

namespace kernbench {

// std::unique_ptr<T> with the default deleter: it owns an object whose type is complete only in a
// .cpp, which defines the owner's constructors and destructor.  A user's file pays a tenth for it,
// as it holds no tuple of the pointer and a deleter and asks nothing of their types.
template <class T>
class Owned {
 public:
  Owned() = default;
  Owned(std::unique_ptr<T> object) : object_(object.release()) {}
  Owned(Owned&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Owned& operator=(Owned&& other) noexcept {
    T* const object = other.object_;
    other.object_ = nullptr;
    destroy();
    object_ = object;
    return *this;
  }
  ~Owned() { destroy(); }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  void destroy() {
    static_assert(sizeof(T) > 0, "the owner's destructor belongs where T is complete");
    delete object_;
  }

  T* object_ = nullptr;
};

}  // namespace kernbench
