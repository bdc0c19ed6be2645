// A gradient while code of the user's has it.

#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/tensor/tensor.h"

namespace kernbench::autograd {

// A gradient may be a term of several sums: what is given it must not write into it, but into a
// copy.  The version of its memory shows if it did.
class WatchedGradient {
 public:
  // REQUIRES: the tensor outlives it.  It is no handle of its own, since a deferred value that
  // somebody has a handle to is stored.
  explicit WatchedGradient(const Tensor& gradient);

  // Throws CollectiveError KB-A007, which names `who`, if the gradient has other users and was
  // written.
  void check(std::string_view who) const;

 private:
  const Tensor* gradient_ = nullptr;  // null if it has no other users: then anybody may write it
  std::uint64_t version_ = 0;
};

}  // namespace kernbench::autograd
