// Creates values, and gives values other shapes.

#include <array>
#include <limits>

#include "runtime/tl/tl.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

// Returns the largest number up to which a type represents every whole number.
std::int64_t largest_count(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 1 << 11;
    case DType::bf16:
      return 1 << 8;
    case DType::u8:
    case DType::i8:
    case DType::i16:
      return static_cast<std::int64_t>(largest_of(dtype));
    case DType::i32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::i64:
      return std::numeric_limits<std::int64_t>::max();
    case DType::boolean:
      return 1;
    case DType::f8e4m3fn:
      return 1 << 4;
    case DType::f8e5m2:
      return 1 << 3;
    case DType::f32:
      break;
  }
  return 1 << 24;
}

// `where` returns the words that name the operation that divides.
template <class Where>
std::int64_t divide_up(std::int64_t a, std::int64_t b, const Where& where) {
  if (b <= 0) {
    throw DeviceError("KB-K022", "{}: {} / {}; the divisor must be positive", where(), a, b);
  }
  return a / b + (a % b > 0 ? 1 : 0);
}

}  // namespace

std::int64_t cdiv(std::int64_t a, std::int64_t b) {
  return divide_up(a, b, [] { return "tl.cdiv"; });
}

std::int64_t Context::cdiv(std::int64_t a, std::int64_t b) const {
  return divide_up(a, b, [this] { return where("tl.cdiv"); });
}

Tensor Context::filled(std::string_view operation, const Shape& shape, const Scalar& value,
                       DType dtype) {
  check_dtype(operation, dtype);
  make_room(operation, shape.numel() * size_of(dtype));
  const std::array number{sim::MathOperand{{}, value}};
  return {*this, shape, run_.math(sim::MathOp::convert, dtype, shape.numel(), number), operation};
}

Tensor Context::arange(std::int64_t start, std::int64_t end, DType dtype) {
  check_dtype("tl.arange", dtype);
  if (end < start) {
    throw DeviceError("KB-K022", "{}: from {} to below {}; the end must not be smaller",
                      where("tl.arange"), start, end);
  }
  const std::int64_t largest = largest_count(dtype);
  const std::int64_t least = dtype == DType::u8 ? 0 : -largest;
  if (end > start && (start < least || end - 1 > largest)) {
    throw DeviceError("KB-K022",
                      "{}: from {} to below {}; {} has all whole numbers from {} to {} only",
                      where("tl.arange"), start, end, name_of(dtype), least, largest);
  }
  const Shape shape{end - start};
  make_room("tl.arange", shape.numel() * size_of(dtype));
  return {*this, shape, run_.ramp(dtype, start, shape.numel()), "tl.arange"};
}

Tensor Context::trans(const Tensor& x) {
  check_own("tl.trans", x);
  if (x.shape_.rank() != 2) {
    throw DeviceError("KB-K022", "{}: {} is no matrix; reshape it to two dimensions",
                      where("tl.trans"), describe(x));
  }
  const std::int64_t rows = x.shape_[0];
  const std::int64_t columns = x.shape_[1];
  make_room("tl.trans", x.tile_->bytes);
  return {*this,
          {columns, rows},
          run_.along_axis(sim::AxisOp::transpose, x.tile_, {1, rows, columns}),
          "tl.trans"};
}

Tensor Context::reshape(const Tensor& x, const Shape& shape) {
  check_own("tl.reshape", x);
  if (shape.numel() != x.shape_.numel()) {
    throw DeviceError("KB-K022", "{}: {} has {} elements, {} has {}", where("tl.reshape"),
                      describe(x), x.shape_.numel(), to_string(shape), shape.numel());
  }
  return {*this, shape, x.tile_, "tl.reshape"};
}

}  // namespace kernbench::tl
