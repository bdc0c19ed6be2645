// Implements tl.dot: matrix products on PE_GEMM.

#include "runtime/fiber/function_ref.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

sim::GemmSize Context::dot_size(const Tensor& a, const Tensor& b) const {
  const bool are_matrices = a.shape().rank() == 2 && b.shape().rank() == 2;
  if (!are_matrices || a.shape()[1] != b.shape()[0]) {
    throw DeviceError("KB-K030", "{}: the operands are {} and {}; [m, k] and [k, n] are wanted",
                      where("tl.dot"), describe(a), describe(b));
  }
  if (!can_be_factors(a.dtype(), b.dtype())) {
    throw DeviceError("KB-K031",
                      "{}: the operands are {} and {}; they must be of one type, or both fp8",
                      where("tl.dot"), describe(a), describe(b));
  }
  return {a.shape()[0], b.shape()[1], a.shape()[1]};
}

Tensor Context::dot(const Tensor& a, const Tensor& b, const DotOptions& options) {
  check_own("tl.dot", a);
  check_own("tl.dot", b);
  check_dtype("tl.dot", options.out_dtype);
  const sim::GemmSize size = dot_size(a, b);
  const Shape shape{size.m, size.n};
  make_room("tl.dot", shape.numel() * size_of(options.out_dtype));
  return {*this, shape, run_.gemm(size, a.tile_, b.tile_, sim::Tile{}, options.out_dtype),
          "tl.dot"};
}

Tensor Context::dot(const Tensor& a, const Tensor& b, Tensor accumulator,
                    const DotOptions& options) {
  check_own("tl.dot", a);
  check_own("tl.dot", b);
  check_own("tl.dot", accumulator);
  check_dtype("tl.dot", options.out_dtype);
  const sim::GemmSize size = dot_size(a, b);
  const Shape shape{size.m, size.n};
  if (accumulator.shape() != shape || accumulator.dtype() != DType::f32) {
    throw DeviceError("KB-K030", "{}: the accumulator is {}; for {} and {} it must be {} f32",
                      where("tl.dot"), describe(accumulator), describe(a), describe(b),
                      to_string(shape));
  }
  const Bytes bytes = shape.numel() * size_of(options.out_dtype);
  make_room_for_command("tl.dot");
  wait_for_scratch("tl.dot", [&] {  // other users of the accumulator may end meanwhile
    return sim::TilePool::can_be_replaced(accumulator.tile_, bytes) ? 0 : bytes;
  });
  return {*this, shape, run_.gemm(size, a.tile_, b.tile_, accumulator.tile_, options.out_dtype),
          "tl.dot"};
}

sim::GemmSize Context::choose_tile(const Pointer& a, const Pointer& b, const Pointer& c,
                                   const sim::GemmSize& size, Bytes scratch) {
  const auto at_least_one = [](std::int64_t value) { return std::max<std::int64_t>(value, 1); };
  sim::CompositePlan plan;
  plan.size = {at_least_one(size.m), at_least_one(size.n), at_least_one(size.k)};
  plan.a.buffer = a.buffer_;
  plan.b.buffer = b.buffer_;
  plan.c.buffer = c.buffer_;
  return run_.choose_tile(plan, {}, scratch).value_or(sim::GemmSize{1, 1, 1});
}

}  // namespace kernbench::tl
