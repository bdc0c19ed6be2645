#include "sim_engine/data/data_executor.h"

#include <xmmintrin.h>

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstring>

#include "sim_engine/base/check.h"
#include "sim_engine/data/axis_math.h"
#include "sim_engine/data/element_format.h"
#include "sim_engine/data/elementwise.h"
#include "sim_engine/data/gemm_product.h"
#include "sim_engine/data/operand.h"

namespace kernbench::sim {

namespace {

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

std::byte* element_of(const ValueNode& node, std::int64_t index) {
  return node.data.get() + index * size_of(node.dtype);
}

// Storage for the result: that of an operand which nobody else refers to, else its own.
void take_storage(ValueNode& node, std::span<const NodeRef> operands) {
  for (const NodeRef& input : operands) {
    if (input.node() == nullptr) break;
    ValueNode& operand = *input.node();
    if (operand.kind == ValueKind::data && operand.reference_count == 1 &&
        operand.dtype == node.dtype) {
      node.data = std::move(operand.data);
      return;
    }
  }
  node.pool->allocate_data(node);
}

// Where the elements of a computed operand are.
ElementSource source_of(const NodeRef& operand) {
  const NodeRange base = base_of(*operand.node());
  const DType dtype = base.node->dtype;
  if (base.node->kind == ValueKind::constant) return {dtype, nullptr, base.node->scalar};
  return {dtype, element_of(*base.node, base.offset), 0};
}

void compute_gemm(ValueNode& node, GemmWorkspace& workspace) {
  const auto& [a, b, accumulator] = node.inputs;
  const bool accumulates = accumulator.node() != nullptr;
  GemmProduct product{node.gemm_size(), source_of(a), source_of(b), {}, node.dtype, nullptr};
  if (accumulates) product.accumulator = source_of(accumulator);
  take_storage(node, std::span(&accumulator, accumulates ? 1 : 0));
  product.target = element_of(node, 0);
  for (std::int64_t part = 0; part < gemm_part_count(product.size); ++part) {
    compute_gemm_part(product, part, workspace);
  }
}

void compute_math(ValueNode& node) {
  std::array<Operand, kMostOperands> operands;
  const std::size_t operand_total = operand_count(node.op);
  for (std::size_t i = 0; i < operand_total; ++i) operands[i].open(*node.inputs[i].node());
  take_storage(node, node.inputs);
  alignas(64) std::array<float, kBlock> unrounded;
  for (std::int64_t first = 0; first < node.count; first += kBlock) {
    const std::int64_t count = std::min(kBlock, node.count - first);
    Blocks blocks{};
    for (std::size_t i = 0; i < operand_total; ++i) blocks[i] = operands[i].block(first, count);
    apply(node.op, blocks, unrounded.data(), count);
    encode(node.dtype, span_of(unrounded.data(), count), element_of(node, first));
  }
}

// A broadcast that is wanted as such.
void compute_broadcast(ValueNode& node) {
  Operand elements;
  elements.open(node);
  node.pool->allocate_data(node);
  for (std::int64_t first = 0; first < node.count; first += kBlock) {
    const std::int64_t count = std::min(kBlock, node.count - first);
    encode(node.dtype, {elements.block(first, count), static_cast<std::size_t>(count)},
           element_of(node, first));
  }
}

void compute_ramp(ValueNode& node) {
  node.pool->allocate_data(node);
  alignas(64) std::array<float, kBlock> numbers;
  const auto start = static_cast<std::int64_t>(node.scalar);
  for (std::int64_t first = 0; first < node.count; first += kBlock) {
    const std::int64_t count = std::min(kBlock, node.count - first);
    for (std::int64_t i = 0; i < count; ++i) {
      numbers[static_cast<std::size_t>(i)] = static_cast<float>(start + first + i);
    }
    encode(node.dtype, span_of(numbers.data(), count), element_of(node, first));
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

void compute_transpose(ValueNode& node) {
  const auto [outer, rows, columns] = node.form;
  const NodeRange base = base_of(*node.inputs[0].node());
  std::byte* const target = node.pool->allocate_data(node);
  if (base.node->kind == ValueKind::constant) {
    fill(node.dtype, base.node->scalar, node.count, target);
    return;
  }
  for (std::int64_t i = 0; i < outer; ++i) {
    const std::int64_t first = i * rows * columns;
    transpose(element_of(*base.node, base.offset + first), rows, columns, size_of(node.dtype),
              element_of(node, first));
  }
}

// Sums, extremes and softmax, one stretch of [length][inner] after the other.
void compute_along_axis(ValueNode& node) {
  const auto [outer, length, inner] = node.form;
  const std::int64_t result_size = node.count / outer;
  Operand operand;
  operand.open(*node.inputs[0].node());
  node.pool->allocate_data(node);
  AxisMath math;
  std::vector<float> decoded;
  std::vector<float> results(static_cast<std::size_t>(result_size));
  for (std::int64_t i = 0; i < outer; ++i) {
    const float* const in = operand.elements(i * length * inner, length * inner, decoded);
    if (node.axis_op == AxisOp::softmax) {
      math.softmax(in, length, inner, results.data());
    } else {
      math.reduce(node.axis_op, in, length, inner, results.data());
    }
    encode(node.dtype, results, element_of(node, i * result_size));
  }
}

void compute_axis_op(ValueNode& node) {
  switch (node.axis_op) {
    case AxisOp::broadcast:
      return compute_broadcast(node);
    case AxisOp::transpose:
      return compute_transpose(node);
    case AxisOp::ramp:
      return compute_ramp(node);
    default:
      return compute_along_axis(node);
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
  for (const NodeRef& input : node.inputs) {
    if (input.node() == nullptr) break;
    ValueNode& base = *base_of(*input.node()).node;
    // A broadcast is read where its source is.
    const bool is_read_through = node.kind == ValueKind::math && base.is_broadcast();
    pushed |= push_if_needed(is_read_through ? *base.inputs[0].node() : base);
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
  switch (node.kind) {
    case ValueKind::math:
      compute_math(node);
      break;
    case ValueKind::along_axis:
      compute_axis_op(node);
      break;
    case ValueKind::gemm:
      compute_gemm(node, workspace_);
      break;
    default:
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
