#include "runtime/functional/reductions.h"

#include <algorithm>

#include "runtime/autograd/autograd.h"
#include "runtime/ops/device_kernel.h"

namespace kernbench {

using ops::Level;
using ops::LocalPart;

namespace {

// The shape and placement of a tensor that is filled with one number.
struct FillForm {
  Shape shape;
  ops::Placement placement;
};

// Returns a tensor whose elements all equal the only one of `value`.
Tensor filled_with(const Tensor& value, const FillForm& form) {
  Tensor result = ops::make_like(value, "expand", form.shape, value.dtype(), form.placement);
  ops::launch("expand", {result}, {value}, [=](tl::Context& tl) {
    const LocalPart target = ops::local_part(result, tl);
    const tl::Tensor number = tl.load(ops::local_part(value, tl).data, {1}, value.dtype());
    const std::int64_t count = target.shape.numel();
    const std::int64_t most = std::min(ops::block_elements(tl), count);
    const tl::Tensor block = tl.zeros({most}, value.dtype()) + number;
    ops::for_each_block(count, most, [&](std::int64_t begin, std::int64_t size) {
      tl.store(target.data + begin, tl.narrow(block, 0, size));
    });
  });
  return result;
}

Tensor sum_of_elements(const Tensor& x, const ops::Placement& placement) {
  Tensor result = ops::make_like(x, "sum", {}, x.dtype(), placement);
  ops::launch("sum", {result}, {x}, [=](tl::Context& tl) {
    const LocalPart source = ops::local_part(x, tl);
    tl::Tensor sum = tl.zeros({}, DType::f32);
    ops::for_each_block(source.shape.numel(), ops::block_elements(tl),
                        [&](std::int64_t begin, std::int64_t size) {
                          const tl::Tensor block = tl.load(source.data + begin, {size}, x.dtype());
                          sum = sum + tl.sum(tl.cast(block, DType::f32));
                        });
    tl.store(ops::local_part(result, tl).data, tl.cast(sum, x.dtype()));
  });
  return result;
}

}  // namespace

Tensor sum(const Tensor& x) {
  ops::check_operands("sum", {x});
  const ops::Placement of_x = ops::placement_of(x);
  const auto placement = ops::by_level(of_x, [](Level level) -> std::optional<Level> {
    return level.is_cut() ? ops::kPartial : level;
  });
  const auto backward = [shape = x.shape(), of_x](const Tensor& dy) {
    const ops::Placement gradient = ops::gradient_placement(ops::placement_of(dy), of_x);
    return std::vector{filled_with(dy, {shape, gradient})};
  };
  return autograd::record("sum", sum_of_elements(x, *placement), {x}, backward);
}

}  // namespace kernbench
