#include "runtime/ops/redistribute.h"

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"

namespace kernbench {

Tensor redistribute(const Tensor& of, const DPPolicy& dp) {
  ops::check_operands("redistribute", {of}, ops::Types::any);
  const Tensor x = contiguous(of);
  if (is_partial(dp)) {
    ops::refuse_placement("redistribute", x,
                          "nobody can say what summands each holder should have");
  }
  const ops::Placement from = ops::placement_of(x);
  const auto backward = [from](const Tensor& dy) {
    return std::vector{ops::redistributed(dy, ops::gradient_placement(from))};
  };
  return autograd::record("redistribute", ops::redistributed(x, ops::placement_of(x, dp)), {x},
                          backward);
}

}  // namespace kernbench
