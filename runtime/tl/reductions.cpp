// Reductions along an axis on PE_MATH.

#include <fmt/format.h>

#include "runtime/tl/tl.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

// Splits a shape into the sizes before, at and after an axis.
sim::AxisForm to_axis_form(const Shape& shape, std::size_t axis) {
  sim::AxisForm form{1, shape[axis], 1};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i < axis) form.outer *= shape[i];
    if (i > axis) form.inner *= shape[i];
  }
  return form;
}

// Returns a shape without one dimension, or without all; with `keeps`, reduced sizes become 1.
Shape reduced_shape(const Shape& shape, std::optional<std::size_t> axis, bool keeps) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    const bool is_reduced = !axis || *axis == i;
    if (!is_reduced) sizes.push_back(shape[i]);
    if (is_reduced && keeps) sizes.push_back(1);
  }
  return Shape(sizes);
}

}  // namespace

std::size_t Context::wrap_axis(std::string_view operation, const Tensor& x, int axis) const {
  const auto rank = static_cast<int>(x.shape_.rank());
  if (axis < -rank || axis >= rank) {
    throw DeviceError("KB-K022", "{}: {} has no axis {}; there are {}", where(operation),
                      describe(x), axis,
                      rank == 0 ? "none" : fmt::format("{} to {}", -rank, rank - 1));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

Tensor Context::reduce(sim::AxisOp op, std::string_view name, const Tensor& x,
                       std::optional<int> axis, const ReduceOptions& options) {
  check_own(name, x);
  std::optional<std::size_t> dimension;
  if (axis) dimension = wrap_axis(name, x, *axis);
  const sim::AxisForm form =
      dimension ? to_axis_form(x.shape_, *dimension) : sim::AxisForm{1, x.shape_.numel(), 1};
  if (op != sim::AxisOp::sum && form.length == 0) {
    throw DeviceError("KB-K022", "{}: {} has no elements there; only a sum is 0 then", where(name),
                      describe(x));
  }
  const Shape shape = reduced_shape(x.shape_, dimension, options.keep_dims);
  make_room(name, shape.numel() * size_of(x.dtype()));
  return {*this, shape, run_.along_axis(op, x.tile_, form), name};
}

Tensor Context::sum(const Tensor& x, std::optional<int> axis, const ReduceOptions& options) {
  return reduce(sim::AxisOp::sum, "tl.sum", x, axis, options);
}
Tensor Context::max(const Tensor& x, std::optional<int> axis, const ReduceOptions& options) {
  return reduce(sim::AxisOp::maximum, "tl.max", x, axis, options);
}
Tensor Context::min(const Tensor& x, std::optional<int> axis, const ReduceOptions& options) {
  return reduce(sim::AxisOp::minimum, "tl.min", x, axis, options);
}

Tensor Context::softmax(const Tensor& x, int axis) {
  check_own("tl.softmax", x);
  const sim::AxisForm form = to_axis_form(x.shape_, wrap_axis("tl.softmax", x, axis));
  make_room("tl.softmax", x.tile_->bytes);
  return {*this, x.shape_, run_.along_axis(sim::AxisOp::softmax, x.tile_, form), "tl.softmax"};
}

}  // namespace kernbench::tl
