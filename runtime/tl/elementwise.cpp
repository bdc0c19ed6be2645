// Elementwise operations on PE_MATH.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/tl/broadcast.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

using Operands = std::span<const Operand>;

std::string describe_operands(Operands operands) {
  std::vector<std::string> all;
  for (const Operand& operand : operands) {
    all.push_back(operand.tensor() == nullptr ? fmt::format("{}", operand.number().real())
                                              : describe(*operand.tensor()));
  }
  std::string text = all.front();
  for (std::size_t i = 1; i < all.size(); ++i)
    text += (i + 1 < all.size() ? ", " : " and ") + all[i];
  return text;
}

DeviceError do_not_fit(const std::string& where, Operands operands,
                       std::string_view what_is_right) {
  return {"KB-K020", fmt::format("{}: the operands are {}; {}", where, describe_operands(operands),
                                 what_is_right)};
}

// Returns the common type of the tensors; nullopt if their types differ.
std::optional<DType> common_dtype(Operands operands) {
  std::optional<DType> dtype;
  for (const Operand& operand : operands) {
    if (operand.tensor() == nullptr) continue;
    if (dtype && *dtype != operand.tensor()->dtype()) return std::nullopt;
    dtype = operand.tensor()->dtype();
  }
  return dtype;
}

// Returns the shape that all tensors broadcast to; nullopt if there is none.
std::optional<Shape> broadcast_shapes(Operands operands) {
  std::optional<Shape> shape;
  for (const Operand& operand : operands) {
    if (operand.tensor() == nullptr) continue;
    const Shape& other = operand.tensor()->shape();
    if (!shape) {
      shape = other;
    } else if (*shape != other) {
      shape = common_shape(*shape, other);
      if (!shape) return std::nullopt;
    }
  }
  return shape;
}

// True for what most operations have: two tensors of one shape and type.
bool are_alike(Operands operands) {
  if (operands.size() != 2) return false;
  const Tensor* const a = operands[0].tensor();
  const Tensor* const b = operands[1].tensor();
  return a != nullptr && b != nullptr && a->dtype() == b->dtype() && a->shape() == b->shape();
}

bool is_of_bits(sim::MathOp op) {
  return op == sim::MathOp::bit_and || op == sim::MathOp::bit_or || op == sim::MathOp::bit_xor;
}

bool are_numbers(Operands operands) {
  return std::ranges::all_of(operands, [](const Operand& x) { return x.tensor() == nullptr; });
}

}  // namespace

Tensor apply(sim::MathOp op, std::string_view name, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    if (operand.tensor() == nullptr) continue;
    Context* const context = operand.tensor()->context_;
    if (context == nullptr) {
      throw DeviceError("KB-K023", "{} on {}: {}", name, describe(*operand.tensor()),
                        Context::kVoidValue);
    }
    const runtime::Fiber* const running = context->fibers_.current();
    if (running == nullptr || running->local() != &context->local_) {
      throw DeviceError("KB-K023", "{} of a value of kernel '{}' on {}, used outside of it: {}",
                        name, context->kernel_name_, to_string(context->location()),
                        Context::kForeignValue);
    }
    return context->elementwise(op, name, operands);
  }
  throw DeviceError("KB-K020", "{}: no operand is a tensor", name);
}

Tensor Context::elementwise(sim::MathOp op, std::string_view name,
                            std::initializer_list<Operand> list) {
  const Operands operands(list.begin(), list.size());
  for (const Operand& operand : operands) {
    if (operand.tensor() != nullptr) check_own(name, *operand.tensor());
  }
  if (is_of_bits(op) && !std::ranges::all_of(operands, [](const Operand& x) {
        return x.tensor() == nullptr || is_integral(x.tensor()->dtype());
      })) {
    throw do_not_fit(where(name), operands, "bits are of i32, i64 and bool");
  }
  if (are_alike(operands)) {
    const Tensor& a = *operands[0].tensor();
    make_room(name, a.tile_->bytes);
    return {*this, a.shape_, run_.math(op, a.tile_, operands[1].tensor()->tile_), name};
  }
  if (are_numbers(operands)) throw do_not_fit(where(name), operands, "one must be a tensor");
  // A mask may have another type than the values it chooses from.
  const bool has_mask = op == sim::MathOp::select && !are_numbers(operands.subspan(1));
  const auto dtype = common_dtype(has_mask ? operands.subspan(1) : operands);
  if (!dtype) {
    throw do_not_fit(where(name), operands, "their types must agree: tl.cast one of them");
  }
  const auto shape = broadcast_shapes(operands);
  if (!shape) {
    throw do_not_fit(where(name), operands,
                     "their shapes must agree, from the last dimension on, or be 1");
  }
  make_room(name, shape->numel() * size_of(*dtype));
  std::array<sim::MathOperand, sim::kMostOperands> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Tensor* const tensor = operands[i].tensor();
    if (tensor != nullptr) inputs[i].tile = broadcast(*tensor, *shape);
    inputs[i].number = operands[i].number();
  }
  const auto inputs_of_op = std::span(inputs).first(operands.size());
  return {*this, *shape, run_.math(op, *dtype, shape->numel(), inputs_of_op), name};
}

sim::Tile Context::broadcast(const Tensor& x, const Shape& shape) {
  if (x.shape_.numel() == shape.numel()) return x.tile_;
  const Repetitions repeated = repetitions(x.shape_, shape);
  sim::Tile tile = x.tile_;
  for (std::size_t i = 0; i < repeated.count; ++i) tile = run_.broadcast(tile, repeated.forms[i]);
  return tile;
}

Tensor Context::cast(const Tensor& x, DType dtype) {
  check_dtype("tl.cast", dtype);
  check_own("tl.cast", x);
  if (x.dtype() == dtype) return x;
  const std::int64_t count = x.shape_.numel();
  make_room("tl.cast", count * size_of(dtype));
  const std::array input{sim::MathOperand{x.tile_}};
  return {*this, x.shape_, run_.math(sim::MathOp::convert, dtype, count, input), "tl.cast"};
}

}  // namespace kernbench::tl
