#include "sim_engine/values/node_work.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/values/axis_math.h"
#include "sim_engine/values/element_format.h"
#include "sim_engine/values/elementwise.h"
#include "sim_engine/values/indexed_rows.h"
#include "sim_engine/values/operand.h"

namespace kernbench::sim {

namespace {

constexpr std::int64_t kPartElements = 64 * kBlock;

std::byte* find_element(const ValueNode& node, std::int64_t index) {
  return node.data.get() + index * size_of(node.dtype);
}

// Elements [first, end) of a part.
struct Range {
  std::int64_t first;
  std::int64_t end;
};

Range elements_of_part(const ValueNode& node, std::int64_t part) {
  return {part * kPartElements, std::min((part + 1) * kPartElements, node.count)};
}

// The number of stretches of [length][inner] in one part of an operation along an axis.
std::int64_t stretches_per_part(const AxisForm& form) {
  return std::max<std::int64_t>(1, kPartElements / (form.length * form.inner));
}

Range stretches_of_part(const ValueNode& node, std::int64_t part) {
  const std::int64_t each = stretches_per_part(node.form);
  return {part * each, std::min((part + 1) * each, node.form.outer)};
}

// Returns where the elements of an operand of a matrix product are.
ElementSource find_source(const ValueNode& product, std::size_t input) {
  NodeRange base = find_base(*product.inputs[input].node());
  std::int64_t pitch = 0;
  if (is_read_through(product, input, base)) {
    const std::int64_t first = base.node->offset;
    pitch = base.node->form.length;
    base = find_base(*base.node->inputs[0].node());
    base.offset += first;
  }
  const DType dtype = base.node->dtype;
  if (base.node->kind == ValueKind::constant) return {dtype, nullptr, base.node->scalar};
  return {dtype, elements_of(*base.node, product) + base.offset * size_of(dtype), 0, pitch};
}

GemmProduct make_product(const ValueNode& node) {
  GemmProduct product{node.gemm_size(), find_source(node, 0), find_source(node, 1), {},
                      node.dtype,       find_element(node, 0)};
  if (node.inputs[2].node() != nullptr) product.accumulator = find_source(node, 2);
  return product;
}

// True for what is computed in integers: operations of integers on integral operands.
bool is_of_integers(const ValueNode& node) {
  if (node.kind != ValueKind::math) return is_integral(node.dtype);
  const auto has_integers = [](const NodeRef& input) {
    return input.node() == nullptr || is_integral(input.node()->dtype);
  };
  return is_of_integers(node.op) && std::ranges::all_of(node.inputs, has_integers);
}

template <class Number>
void compute_math(ValueNode& node, const Range& range) {
  std::array<Operand<Number>, kMostOperands> operands;
  const std::size_t operand_total = operand_count(node.op);
  for (std::size_t i = 0; i < operand_total; ++i) operands[i].open(*node.inputs[i].node(), node);
  alignas(64) std::array<Number, kBlock> unrounded;
  for (std::int64_t first = range.first; first < range.end; first += kBlock) {
    const std::int64_t count = std::min(kBlock, range.end - first);
    BlocksOf<Number> blocks{};
    for (std::size_t i = 0; i < operand_total; ++i) blocks[i] = operands[i].block(first, count);
    apply(node.op, blocks, unrounded.data(), count);
    encode(node.dtype, std::span<const Number>(make_span(unrounded.data(), count)),
           find_element(node, first));
  }
}

// Writes a broadcast out; only done if it is read as such, not through an element-wise operation.
template <class Number>
void compute_broadcast(ValueNode& node, const Range& range) {
  Operand<Number> elements;
  elements.open(node, node);
  for (std::int64_t first = range.first; first < range.end; first += kBlock) {
    const std::int64_t count = std::min(kBlock, range.end - first);
    encode(node.dtype, make_span(elements.block(first, count), count), find_element(node, first));
  }
}

template <class Number>
void compute_ramp(ValueNode& node, const Range& range) {
  alignas(64) std::array<Number, kBlock> numbers;
  for (std::int64_t first = range.first; first < range.end; first += kBlock) {
    const std::int64_t count = std::min(kBlock, range.end - first);
    for (std::int64_t i = 0; i < count; ++i) {
      numbers[static_cast<std::size_t>(i)] = static_cast<Number>(node.whole + first + i);
    }
    encode(node.dtype, std::span<const Number>(make_span(numbers.data(), count)),
           find_element(node, first));
  }
}

template <class Bits>
void fill_with(const std::byte* element, std::int64_t count, std::byte* target) {
  Bits bits;
  std::memcpy(&bits, element, sizeof(Bits));
  std::fill_n(reinterpret_cast<Bits*>(target), count, bits);
}

// Repeats a constant.
void fill(const ValueNode& constant, std::int64_t count, std::byte* target) {
  std::array<std::byte, sizeof(std::int64_t)> element{};
  if (is_integral(constant.dtype)) {
    encode(constant.dtype, std::span(&constant.whole, 1), element.data());
  } else {
    encode(constant.dtype, std::span(&constant.scalar, 1), element.data());
  }
  switch (size_of(constant.dtype)) {
    case 1:
      return fill_with<std::uint8_t>(element.data(), count, target);
    case 2:
      return fill_with<std::uint16_t>(element.data(), count, target);
    case 4:
      return fill_with<std::uint32_t>(element.data(), count, target);
    default:
      return fill_with<std::uint64_t>(element.data(), count, target);
  }
}

// Copies `count` elements of `node` from `offset` on; returns where the copy ends.
std::byte* copy_elements(ValueNode& node, std::int64_t offset, std::int64_t count,
                         std::byte* target) {
  const NodeRange base = find_base(node);
  const Bytes bytes = count * size_of(node.dtype);
  if (base.node->kind == ValueKind::constant) {
    fill(*base.node, count, target);
  } else {
    std::memcpy(target, find_element(*base.node, base.offset + offset),
                static_cast<std::size_t>(bytes));
  }
  return target + bytes;
}

void compute_copy(ValueNode& node) {
  std::byte* target = find_element(node, 0);
  if (node.kind == ValueKind::view) {
    copy_elements(*node.inputs[0].node(), node.offset, node.count, target);
    return;
  }
  for (std::int64_t i = 0; node.kind == ValueKind::rows && i < node.form.outer; ++i) {
    target = copy_elements(*node.inputs[0].node(), node.offset + i * node.form.length,
                           node.form.inner, target);
  }
  for (const ValuePiece& piece : node.pieces) {
    target = copy_elements(*piece.value.node(), piece.offset, piece.count, target);
  }
}

void compute_transpose(ValueNode& node, const Range& stretches) {
  const auto [outer, rows, columns] = node.form;
  const NodeRange base = find_base(*node.inputs[0].node());
  for (std::int64_t i = stretches.first; i < stretches.end; ++i) {
    const std::int64_t first = i * rows * columns;
    if (base.node->kind == ValueKind::constant) {
      fill(*base.node, rows * columns, find_element(node, first));
    } else {
      transpose(find_element(*base.node, base.offset + first), rows, columns, size_of(node.dtype),
                find_element(node, first));
    }
  }
}

// Sums, extremes and softmax, one stretch of [length][inner] after the other.
template <class Number>
void compute_along_axis(ValueNode& node, const Range& stretches) {
  const auto [outer, length, inner] = node.form;
  const std::int64_t result_size = node.count / outer;
  Operand<Number> operand;
  operand.open(*node.inputs[0].node(), node);
  AxisMath<Number> math;
  std::vector<Number> decoded;
  std::vector<Number> results(static_cast<std::size_t>(result_size));
  for (std::int64_t i = stretches.first; i < stretches.end; ++i) {
    const Number* const in = operand.elements(i * length * inner, length * inner, decoded);
    if (node.axis_op == AxisOp::softmax) {
      math.softmax(in, length, inner, results.data());
    } else {
      math.reduce(node.axis_op, in, length, inner, results.data());
    }
    encode(node.dtype, std::span<const Number>(results), find_element(node, i * result_size));
  }
}

template <class Number>
void compute_axis_op(ValueNode& node, std::int64_t part) {
  switch (node.axis_op) {
    case AxisOp::broadcast:
      return compute_broadcast<Number>(node, elements_of_part(node, part));
    case AxisOp::transpose:
      return compute_transpose(node, stretches_of_part(node, part));
    case AxisOp::ramp:
      return compute_ramp<Number>(node, elements_of_part(node, part));
    default:
      return compute_along_axis<Number>(node, stretches_of_part(node, part));
  }
}

template <class Number>
void compute_elements(ValueNode& node, std::int64_t part) {
  if (node.kind == ValueKind::along_axis) return compute_axis_op<Number>(node, part);
  compute_math<Number>(node, elements_of_part(node, part));
}

bool is_cut_by_elements(const ValueNode& node) {
  return node.kind == ValueKind::math ||
         (node.kind == ValueKind::along_axis &&
          (node.axis_op == AxisOp::broadcast || node.axis_op == AxisOp::ramp));
}

constexpr std::int64_t kPartOverhead = 200;  // in nanoseconds

// The approximate time of the node in nanoseconds: measured on one core, within a factor of two.
std::int64_t cost(const ValueNode& node) {
  constexpr std::int64_t kProductsPerNs = 40;
  if (node.kind != ValueKind::gemm) return node.count;
  const GemmSize size = node.gemm_size();
  return size.m * size.n * size.k / kProductsPerNs + size.m * size.n;
}

}  // namespace

bool is_read_through(const ValueNode& node, std::size_t input, const NodeRange& base) {
  if (node.kind == ValueKind::math) return base.node->is_broadcast();
  if (node.kind != ValueKind::gemm || base.node->kind != ValueKind::rows || input > 1) return false;
  const GemmSize size = node.gemm_size();
  const std::int64_t rows = input == 0 ? size.m : size.k;
  const std::int64_t columns = input == 0 ? size.k : size.n;
  return base.offset == 0 && base.node->form.outer == rows && base.node->form.inner == columns;
}

void take_storage(ValueNode& node) {
  const bool accumulates = node.kind == ValueKind::gemm;
  const bool may_take = accumulates || node.kind == ValueKind::math;
  for (std::size_t i = accumulates ? 2 : 0; may_take && i < node.inputs.size(); ++i) {
    ValueNode* const operand = node.inputs[i].node();
    if (operand != nullptr && operand->kind == ValueKind::data && operand->reference_count == 1 &&
        operand->dtype == node.dtype) {
      node.data = std::move(operand->data);
      return;
    }
  }
  node.pool->allocate_data(node);
}

std::int64_t part_count(const ValueNode& node) {
  if (node.kind == ValueKind::gemm) return gemm_part_count(node.gemm_size());
  if (is_cut_by_elements(node)) return (node.count + kPartElements - 1) / kPartElements;
  if (node.kind != ValueKind::along_axis) return 1;
  const std::int64_t each = stretches_per_part(node.form);
  return ceil_divide(node.form.outer, each);
}

std::int64_t part_cost(const ValueNode& node) {
  return kPartOverhead + cost(node) / part_count(node);
}

std::int64_t node_cost(const ValueNode& node) {
  return kPartOverhead * part_count(node) + cost(node);
}

void compute_part(ValueNode& node, std::int64_t part, GemmWorkspace& workspace) {
  switch (node.kind) {
    case ValueKind::math:
    case ValueKind::along_axis:
      return is_of_integers(node) ? compute_elements<std::int64_t>(node, part)
                                  : compute_elements<float>(node, part);
    case ValueKind::gemm:
      return compute_gemm_part(make_product(node), part, workspace);
    case ValueKind::index_select:
      return compute_index_select(node);
    case ValueKind::index_add:
      return compute_index_add(node);
    default:
      return compute_copy(node);
  }
}

}  // namespace kernbench::sim
