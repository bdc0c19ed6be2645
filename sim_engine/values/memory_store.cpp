#include "sim_engine/values/memory_store.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "sim_engine/base/check.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::sim {

namespace {

bool same_constant(const ValueNode& a, const ValueNode& b) {
  return a.kind == ValueKind::constant && b.kind == ValueKind::constant &&
         std::bit_cast<std::uint32_t>(a.scalar) == std::bit_cast<std::uint32_t>(b.scalar) &&
         a.whole == b.whole;
}

// True if a piece that starts at `offset` of `value` continues where `last` ends.
bool continues(const ValuePiece& last, const ValueNode& value, std::int64_t offset) {
  const ValueNode& node = *last.value.node();
  if (&node == &value && last.offset + last.count == offset) return true;
  return same_constant(node, value);
}

void check_range(std::int64_t begin, std::int64_t count, std::int64_t size) {
  KB_CHECK(begin >= 0 && count >= 0 && begin <= size && count <= size - begin,
           "{} elements from {} on, in a region of {}", count, begin, size);
}

}  // namespace

MemoryStore::MemoryStore(bool data) : data_(data) {}

void MemoryStore::check_live(RegionId id) const {
  KB_CHECK(id.index < regions_.size(), "there is no region {}", id.index);
  const Region& found = regions_[id.index];
  KB_CHECK(found.live && found.generation == id.generation, "region {} was destroyed", id.index);
}

RegionId MemoryStore::create_region(DType dtype, std::int64_t element_count) {
  KB_CHECK(element_count >= 0, "a region of {} elements", element_count);
  if (free_regions_.empty()) {
    free_regions_.push_back(static_cast<std::uint32_t>(regions_.size()));
    regions_.emplace_back();
  }
  const std::uint32_t index = free_regions_.back();
  free_regions_.pop_back();
  Region& created = regions_[index];
  created.dtype = dtype;
  created.live = true;
  created.element_count = element_count;
  constexpr double kNeverWritten = std::numeric_limits<double>::quiet_NaN();
  if (needs_node(element_count)) {
    created.values.fill(element_count, constant(dtype, element_count, kNeverWritten));
  }
  return {index, created.generation};
}

void MemoryStore::destroy_region(RegionId id) {
  Region& destroyed = region(id);
  destroyed.live = false;
  ++destroyed.generation;
  ++destroyed_count_;
  destroyed.values.clear();
  free_regions_.push_back(id.index);
}

void MemoryStore::check_own(const Value& value) const {
  if (!needs_node(value.element_count())) return;
  KB_CHECK(value.node() != nullptr && value.node()->pool == pool_.get(),
           "a value that is not of this store");
}

namespace {

std::int64_t to_element(DType dtype, const Scalar& number) {
  if (dtype == DType::i64 && is_integral(number.type())) return number.whole();
  return to_whole_number(dtype, number.real());
}

}  // namespace

Value MemoryStore::constant(DType dtype, std::int64_t element_count, const Scalar& scalar) {
  KB_CHECK(element_count >= 0, "a value of {} elements", element_count);
  if (!needs_node(element_count)) return {dtype, element_count};
  ValueNode* const node = pool_->create(ValueKind::constant, dtype, element_count);
  node->whole = is_integral(dtype) ? to_element(dtype, scalar) : 0;
  node->scalar =
      is_integral(dtype) ? static_cast<float>(node->whole) : round_to(dtype, scalar.real());
  return Value(node);
}

Value MemoryStore::repeated(const ValueNode& of, std::int64_t element_count) {
  ValueNode* const node = pool_->create(ValueKind::constant, of.dtype, element_count);
  node->scalar = of.scalar;
  node->whole = of.whole;
  return Value(node);
}

namespace {

template <class Number>
Value make_data(ValuePool& pool, DType dtype, std::span<const Number> elements) {
  const Value value(
      pool.create(ValueKind::data, dtype, static_cast<std::int64_t>(elements.size())));
  encode(dtype, elements, pool.allocate_data(*value.node()));
  return value;
}

}  // namespace

Value MemoryStore::literal(DType dtype, std::span<const float> elements) {
  const auto count = static_cast<std::int64_t>(elements.size());
  return needs_node(count) ? make_data(*pool_, dtype, elements) : Value(dtype, count);
}

Value MemoryStore::literal(DType dtype, std::span<const std::int64_t> elements) {
  const auto count = static_cast<std::int64_t>(elements.size());
  return needs_node(count) ? make_data(*pool_, dtype, elements) : Value(dtype, count);
}

Value MemoryStore::ramp(DType dtype, std::int64_t start, std::int64_t element_count) {
  KB_CHECK(element_count >= 0, "a value of {} elements", element_count);
  if (!needs_node(element_count)) return {dtype, element_count};
  ValueNode* const node = pool_->create(ValueKind::along_axis, dtype, element_count);
  node->axis_op = AxisOp::ramp;
  node->form = {1, element_count, 1};
  node->whole = start;
  return Value(node);
}

Value MemoryStore::math(MathOp op, const Value& a, const Value& b) {
  KB_CHECK(
      operand_count(op) == 2 && a.dtype() == b.dtype() && a.element_count() == b.element_count(),
      "{} of {} {} and {} {}", name_of(op), a.element_count(), name_of(a.dtype()),
      b.element_count(), name_of(b.dtype()));
  check_own(a);
  check_own(b);
  if (!needs_node(a.element_count())) return {a.dtype(), a.element_count()};
  ValueNode* const node = pool_->create(ValueKind::math, a.dtype(), a.element_count());
  node->op = op;
  node->inputs[0] = a.ref();
  node->inputs[1] = b.ref();
  return Value(node);
}

Value MemoryStore::math(MathOp op, DType dtype, std::span<const Value> operands) {
  KB_CHECK(operands.size() == operand_count(op), "{} operands of {}", operands.size(), name_of(op));
  const std::int64_t count = operands.front().element_count();
  for (const Value& operand : operands) {
    KB_CHECK(operand.element_count() == count, "{} of {} and {} elements", name_of(op), count,
             operand.element_count());
    check_own(operand);
  }
  if (!needs_node(count)) return {dtype, count};
  ValueNode* const node = pool_->create(ValueKind::math, dtype, count);
  node->op = op;
  for (std::size_t i = 0; i < operands.size(); ++i) node->inputs[i] = operands[i].ref();
  if (op == MathOp::select && is_integral(dtype) && !is_integral(operands[0].dtype())) {
    // Integers are chosen as such, whatever the mask's type.
    node->inputs[0] = math(MathOp::convert, DType::boolean, operands.first(1)).ref();
  }
  return Value(node);
}

Value MemoryStore::along_axis(AxisOp op, const Value& operand, const AxisForm& form) {
  KB_CHECK(op != AxisOp::ramp && operand.element_count() == source_count(op, form),
           "{} along the axis of [{}, {}, {}] on {} elements", name_of(op), form.outer, form.length,
           form.inner, operand.element_count());
  check_own(operand);
  const std::int64_t count = result_count(op, form);
  if (!needs_node(count)) return {operand.dtype(), count};
  if (operand.element_count() == 0) {
    KB_CHECK(op == AxisOp::sum, "{} of no elements", name_of(op));
    return constant(operand.dtype(), count, 0.0);
  }
  if (op == AxisOp::broadcast && operand.node()->kind == ValueKind::constant) {
    return repeated(*operand.node(), count);
  }
  ValueNode* const node = pool_->create(ValueKind::along_axis, operand.dtype(), count);
  node->axis_op = op;
  node->form = form;
  node->inputs[0] = operand.ref();
  return Value(node);
}

Value MemoryStore::gemm(const GemmSize& size, const Value& a, const Value& b,
                        const Value& accumulator, DType dtype) {
  const std::int64_t count = size.m * size.n;
  const std::int64_t summands = accumulator.element_count();
  KB_CHECK(a.element_count() == size.m * size.k && b.element_count() == size.k * size.n,
           "[{}, {}] x [{}, {}] of {} and {} elements", size.m, size.k, size.k, size.n,
           a.element_count(), b.element_count());
  KB_CHECK(summands == 0 || (summands == count && accumulator.dtype() == DType::f32),
           "an accumulator of {} {} for {} elements", summands, name_of(accumulator.dtype()),
           count);
  check_own(a);
  check_own(b);
  check_own(accumulator);
  if (!needs_node(count)) return {dtype, count};
  if (size.k == 0) {
    return summands == 0 ? constant(dtype, count, 0.0)
                         : math(MathOp::convert, dtype, std::span(&accumulator, 1));
  }
  ValueNode* const node = pool_->create(ValueKind::gemm, dtype, count);
  node->form = {size.m, size.k, size.n};
  node->inputs[0] = a.ref();
  node->inputs[1] = b.ref();
  node->inputs[2] = accumulator.ref();
  return Value(node);
}

Value MemoryStore::declare(DType dtype, std::int64_t element_count) {
  KB_CHECK(element_count >= 0, "a value of {} elements", element_count);
  if (!needs_node(element_count)) return {dtype, element_count};
  return Value(pool_->create(ValueKind::view, dtype, element_count));
}

void MemoryStore::bind(const Value& placeholder, const Value& source) {
  KB_CHECK(placeholder.dtype() == source.dtype() &&
               placeholder.element_count() == source.element_count(),
           "a placeholder of {} {} bound to {} {}", placeholder.element_count(),
           name_of(placeholder.dtype()), source.element_count(), name_of(source.dtype()));
  check_own(placeholder);
  check_own(source);
  if (!needs_node(source.element_count())) return;
  ValueNode& node = *placeholder.node();
  KB_CHECK(node.is_placeholder(), "bound twice, or not a placeholder");
  KB_CHECK(find_base(*source.node()).node != &node, "a placeholder bound to itself");
  node.inputs[0] = source.ref();
}

// Adds a piece, merged with the last one if both are consecutive in the same value.
void MemoryStore::add_piece(const Value& value, std::int64_t offset, std::int64_t count) {
  const NodeRange base = find_base(*value.node());
  const std::int64_t base_offset = base.offset + offset;
  if (!pieces_.empty() && continues(pieces_.back(), *base.node, base_offset)) {
    pieces_.back().count += count;
  } else {
    pieces_.push_back({Value(base.node), base_offset, count});
  }
}

Value MemoryStore::joined_pieces(DType dtype, std::int64_t count) {
  if (pieces_.size() > 1) {
    const Value joined(pool_->create(ValueKind::concat, dtype, count));
    joined.node()->pieces = pieces_;
    return joined;
  }
  const ValuePiece& piece = pieces_.front();
  if (piece.value.element_count() == count) return piece.value;
  if (piece.value.node()->kind == ValueKind::constant) {
    return repeated(*piece.value.node(), count);
  }
  const Value part(pool_->create(ValueKind::view, dtype, count));
  part.node()->inputs[0] = piece.value.ref();
  part.node()->offset = piece.offset;
  return part;
}

Value MemoryStore::slice(const Value& value, std::int64_t offset, std::int64_t count) {
  check_range(offset, count, value.element_count());
  if (!needs_node(count)) return {value.dtype(), count};
  check_own(value);
  add_piece(value, offset, count);
  const Value part = joined_pieces(value.dtype(), count);
  pieces_.clear();
  return part;
}

Value MemoryStore::concat(std::span<const Value> values) {
  KB_CHECK(!values.empty(), "nothing to concatenate");
  const DType dtype = values.front().dtype();
  std::int64_t count = 0;
  for (const Value& value : values) {
    KB_CHECK(value.dtype() == dtype, "{} after {}", name_of(value.dtype()), name_of(dtype));
    count += value.element_count();
    if (!needs_node(value.element_count())) continue;
    check_own(value);
    add_piece(value, 0, value.element_count());
  }
  if (!needs_node(count)) return {dtype, count};
  const Value joined = joined_pieces(dtype, count);
  pieces_.clear();
  return joined;
}

// Adds the pieces of values that lie at [begin, end) of a region.
void MemoryStore::add_pieces(const Region& from, std::int64_t begin, std::int64_t end) {
  IntervalMap::Place place = from.values.find(begin);
  for (std::int64_t position = begin; position < end; place = from.values.after(place)) {
    const IntervalMap::Interval& interval = from.values.at(place);
    const std::int64_t stop = std::min(end, from.values.end_of(place));
    add_piece(interval.value, interval.offset + (position - interval.begin), stop - position);
    position = stop;
  }
}

Value MemoryStore::load(RegionId id, std::int64_t begin, std::int64_t count) {
  const Region& from = region(id);
  check_range(begin, count, from.element_count);
  if (!needs_node(count)) return {from.dtype, count};
  const IntervalMap::Place place = from.values.find(begin);
  // A value is at least as long as its interval, so one of `count` elements is exactly what is
  // asked.
  if (const IntervalMap::Interval& first = from.values.at(place);
      first.value.element_count() == count && from.values.end_of(place) == begin + count) {
    return first.value;
  }
  add_pieces(from, begin, begin + count);
  const Value loaded = joined_pieces(from.dtype, count);
  pieces_.clear();
  return loaded;
}

void MemoryStore::store(RegionId id, std::int64_t begin, const Value& value) {
  Region& into = region(id);
  const std::int64_t count = value.element_count();
  KB_CHECK(value.dtype() == into.dtype, "{} stored to a region of {}", name_of(value.dtype()),
           name_of(into.dtype));
  check_range(begin, count, into.element_count);
  check_own(value);
  if (count > 0) ++into.write_count;
  if (!needs_node(count)) return;
  into.values.put(begin, begin + count, 0, value);
}

}  // namespace kernbench::sim
