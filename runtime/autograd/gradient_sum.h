// Adds up the gradients that flow to one tensor in a pass.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/autograd/autograd.h"

namespace kernbench::autograd {

// A sum of gradients of a tensor and of parts of it.
class GradientSum {
 public:
  void add(Tensor gradient);
  // Adds the gradient of a part of the tensor; take() assembles it with others.
  void add(Tensor gradient, const Part& part);

  bool is_empty() const { return !whole_.defined() && parts_.empty(); }

  // Returns the sum, for a tensor of this shape, and leaves nothing here.  Throws DeviceError
  // KB-F003 if a partial gradient would be added to a whole one.
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
