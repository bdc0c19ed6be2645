#include "runtime/autograd/gradient_sum.h"

#include <algorithm>
#include <utility>

#include "runtime/ops/elements.h"
#include "runtime/ops/pieces.h"
#include "runtime/ops/placement.h"

namespace kernbench::autograd {

void GradientSum::add(Tensor gradient) {
  whole_ = whole_.defined() ? ops::make_sum(whole_, gradient) : std::move(gradient);
}

void GradientSum::add(Tensor gradient, const Part& part) {
  parts_.push_back({std::move(gradient), part});
}

Tensor GradientSum::take(const Shape& shape) {
  std::ranges::stable_sort(parts_, {}, [](const PartGradient& x) { return x.part.start; });
  while (!parts_.empty()) add(take_parts_beside_each_other(shape));
  return std::exchange(whole_, {});
}

// Merges the first part with every other part that has its dimension and placement and lies after
// those merged before.
Tensor GradientSum::take_parts_beside_each_other(const Shape& shape) {
  const std::size_t dimension = parts_.front().part.dimension;
  const ops::Placement placement = ops::placement_of(parts_.front().gradient);
  std::vector<ops::Piece> pieces;
  std::vector<PartGradient> others;
  std::int64_t end = 0;
  for (PartGradient& each : parts_) {
    if (each.part.dimension == dimension && each.part.start >= end &&
        ops::placement_of(each.gradient) == placement) {
      end = each.end();
      pieces.push_back({std::move(each.gradient), each.part.start});
    } else {
      others.push_back(std::move(each));
    }
  }
  parts_ = std::move(others);
  return ops::assembled("narrow_backward", shape, dimension, pieces);
}

}  // namespace kernbench::autograd
