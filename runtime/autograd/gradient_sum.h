// What flows to one tensor in a pass.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/autograd/autograd.h"

namespace kernbench::autograd {

// A sum of gradients of a tensor, and of parts of it.
class GradientSum {
 public:
  void add(Tensor gradient);
  // Of a part of the tensor: put together with others, and added, by take().
  void add(Tensor gradient, const Part& part);

  // The sum, for a tensor of this shape; nothing is left of it here.  Throws DeviceError KB-F003
  // for the sum of a sum of holders and of what is whole.
  // REQUIRES: something was added
  Tensor take(const Shape& shape);

 private:
  struct PartGradient {
    Tensor gradient;
    Part part;

    std::int64_t end() const { return part.start + gradient.shape()[part.dimension]; }
  };

  Tensor take_parts_beside_each_other(const Shape& shape);

  Tensor whole_;
  std::vector<PartGradient> parts_;
};

}  // namespace kernbench::autograd
