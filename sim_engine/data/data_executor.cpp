#include "sim_engine/data/data_executor.h"

#include <xmmintrin.h>

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "sim_engine/base/check.h"
#include "sim_engine/data/element_format.h"

namespace kernbench::sim {

namespace {

constexpr std::int64_t kBlock = 1024;  // elements; three blocks of f32 fit into the L1 cache

using Source = Eigen::Map<const Eigen::ArrayXf>;
using Target = Eigen::Map<Eigen::ArrayXf>;

// Flushed subnormals or another rounding mode would give other bits.
void check_float_environment() {
  constexpr unsigned kFlushesOrRoundsOtherwise = 0x8040 | 0x6000;
  KB_CHECK((_mm_getcsr() & kFlushesOrRoundsOtherwise) == 0,
           "KB-N010: FTZ, DAZ or a rounding mode was set by a library");
}

// Eigen cuts matrices in blocks by the host's caches: other caches would give other bits.
void pin_cache_sizes() {
  [[maybe_unused]] static const bool pinned = [] {
    Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
    return true;
  }();
}

bool is_computed(const ValueNode& node) {
  return node.kind == ValueKind::data || node.kind == ValueKind::constant;
}

const std::byte* element_of(const ValueNode& node, std::int64_t index) {
  return node.data.get() + index * size_of(node.dtype);
}

std::span<float> span_of(float* first, std::int64_t count) {
  return {first, static_cast<std::size_t>(count)};
}

// The blocks of an operand as f32, wherever and in whatever form its elements are.
class Operand {
 public:
  Operand(ValueNode& node, std::int64_t count) {
    const NodeRange base = base_of(node);
    dtype_ = base.node->dtype;
    if (base.node->kind == ValueKind::constant) {
      std::fill_n(converted_.data(), std::min(count, kBlock), base.node->scalar);
    } else {
      data_ = element_of(*base.node, base.offset);
    }
  }

  // Elements [first, first + count); valid until the next call.
  // REQUIRES: count <= kBlock
  const float* block(std::int64_t first, std::int64_t count) {
    if (data_ == nullptr) return converted_.data();
    const std::byte* const source = data_ + first * size_of(dtype_);
    if (dtype_ == DType::f32) return reinterpret_cast<const float*>(source);
    decode(dtype_, source, span_of(converted_.data(), count));
    return converted_.data();
  }

 private:
  DType dtype_ = DType::f32;
  const std::byte* data_ = nullptr;  // of a constant: none, converted_ is always right
  alignas(64) std::array<float, kBlock> converted_;
};

// A bijection under which floats that are not NaN are ordered as integers, -0 below +0.
std::int32_t order_of(std::int32_t bits) {
  return bits ^ ((bits >> 31) & 0x7fff'ffff);
}

constexpr std::int32_t kQuietNan = 0x7fc0'0000;

bool is_nan(std::int32_t bits) {
  return (bits & 0x7fff'ffff) > 0x7f80'0000;
}

// Eigen's max and min depend on the order of the operands for zeros and NaN.  On integers and
// without branches, so that the loop is vectorised.
template <class Choose>
void choose_elements(Choose choose, const float* a, const float* b, float* out,
                     std::int64_t count) {
  std::transform(a, a + count, b, out, [choose](float left, float right) {
    const auto x = std::bit_cast<std::int32_t>(left);
    const auto y = std::bit_cast<std::int32_t>(right);
    const std::int32_t chosen = order_of(choose(order_of(x), order_of(y)));
    return std::bit_cast<float>(is_nan(x) || is_nan(y) ? kQuietNan : chosen);
  });
}

void apply(MathOp op, const float* a, const float* b, float* out, std::int64_t count) {
  const Source left(a, count);
  const Source right(b, count);
  Target result(out, count);
  switch (op) {
    case MathOp::add:
      result = left + right;
      return;
    case MathOp::subtract:
      result = left - right;
      return;
    case MathOp::multiply:
      result = left * right;
      return;
    case MathOp::divide:
      result = left / right;
      return;
    case MathOp::maximum:
      choose_elements([](auto x, auto y) { return x > y ? x : y; }, a, b, out, count);
      return;
    case MathOp::minimum:
      choose_elements([](auto x, auto y) { return x < y ? x : y; }, a, b, out, count);
      return;
  }
}

// Storage for the result: that of an operand which nobody else refers to, else its own.
std::byte* in_place_or_new(ValueNode& node) {
  for (const Value& input : node.inputs) {
    ValueNode& operand = *input.node();
    if (operand.kind == ValueKind::data && operand.reference_count == 1) {
      node.data = std::move(operand.data);
      return node.data.get();
    }
  }
  return node.pool->allocate_data(node);
}

void compute_math(ValueNode& node) {
  Operand a(*node.inputs[0].node(), node.count);
  Operand b(*node.inputs[1].node(), node.count);
  std::byte* const target = in_place_or_new(node);
  alignas(64) std::array<float, kBlock> unrounded;
  for (std::int64_t first = 0; first < node.count; first += kBlock) {
    const std::int64_t count = std::min(kBlock, node.count - first);
    apply(node.op, a.block(first, count), b.block(first, count), unrounded.data(), count);
    encode(node.dtype, span_of(unrounded.data(), count), target + first * size_of(node.dtype));
  }
}

void fill(DType dtype, float scalar, std::int64_t count, std::byte* target) {
  if (dtype == DType::f32) {
    std::fill_n(reinterpret_cast<float*>(target), count, scalar);
    return;
  }
  std::uint16_t bits = 0;
  encode(dtype, span_of(&scalar, 1), reinterpret_cast<std::byte*>(&bits));
  std::fill_n(reinterpret_cast<std::uint16_t*>(target), count, bits);
}

// Copies `count` elements of `node` from `offset` on; returns where the copy ends.
std::byte* copy_elements(ValueNode& node, std::int64_t offset, std::int64_t count,
                         std::byte* target) {
  const NodeRange base = base_of(node);
  const Bytes bytes = count * size_of(node.dtype);
  if (base.node->kind == ValueKind::constant) {
    fill(node.dtype, base.node->scalar, count, target);
  } else {
    std::memcpy(target, element_of(*base.node, base.offset + offset),
                static_cast<std::size_t>(bytes));
  }
  return target + bytes;
}

void compute_copy(ValueNode& node) {
  std::byte* target = node.pool->allocate_data(node);
  if (node.kind == ValueKind::view) {
    copy_elements(*node.inputs[0].node(), node.offset, node.count, target);
    return;
  }
  for (const ValuePiece& piece : node.pieces) {
    target = copy_elements(*piece.value.node(), piece.offset, piece.count, target);
  }
}

// Views of a whole value are read where that value is.
ValueNode& without_aliases(ValueNode& node) {
  const NodeRange base = base_of(node);
  KB_CHECK(!base.node->is_placeholder(), "read of a value that was never bound");
  return base.node->count == node.count ? *base.node : node;
}

}  // namespace

void DataExecutor::read(const Value& value, std::span<float> out) {
  KB_CHECK(store_.has_data(), "read in a timing-only run");
  KB_CHECK(static_cast<std::int64_t>(out.size()) == value.element_count(),
           "read of {} elements into {}", value.element_count(), out.size());
  if (out.empty()) return;
  KB_CHECK(value.node() != nullptr, "read of a value without data");
  check_float_environment();
  pin_cache_sizes();
  ValueNode& node = without_aliases(*value.node());
  compute(node);
  if (node.kind == ValueKind::constant) {
    std::ranges::fill(out, node.scalar);
  } else {
    decode(node.dtype, node.data.get(), out);
  }
}

// Depth first with a stack of its own: dependencies may be millions deep.  A node stays on the path
// until its inputs are computed; while it is there they are referred to by it and cannot end.
void DataExecutor::compute(ValueNode& root) {
  struct AbandonOnError {
    DataExecutor& self;
    ~AbandonOnError() { self.abandon_path(); }
  } guard{*this};
  if (!is_computed(root)) path_.push_back(&root);
  while (!path_.empty()) {
    ValueNode& node = *path_.back();
    if (!is_computed(node)) {  // else it was computed for another of its users meanwhile
      node.on_path = true;
      if (push_inputs(node)) continue;
      compute_node(node);
    }
    path_.pop_back();
  }
}

bool DataExecutor::push_inputs(ValueNode& node) {
  bool pushed = false;
  for (const Value& input : node.inputs) {
    if (input.node() != nullptr) pushed |= push_if_needed(*input.node());
  }
  for (const ValuePiece& piece : node.pieces) pushed |= push_if_needed(*piece.value.node());
  return pushed;
}

bool DataExecutor::push_if_needed(ValueNode& input) {
  ValueNode& base = *base_of(input).node;
  KB_CHECK(!base.is_placeholder(), "read of a value that was never bound");
  KB_CHECK(!base.on_path, "a value that depends on itself");
  if (is_computed(base)) return false;
  path_.push_back(&base);
  return true;
}

void DataExecutor::compute_node(ValueNode& node) {
  if (node.kind == ValueKind::math) {
    compute_math(node);
  } else {
    compute_copy(node);
  }
  node.kind = ValueKind::data;
  node.on_path = false;
  node.inputs = {};
  node.pieces = {};
  ++computed_count_;
}

void DataExecutor::abandon_path() {
  for (ValueNode* const node : path_) node->on_path = false;
  path_.clear();
}

}  // namespace kernbench::sim
