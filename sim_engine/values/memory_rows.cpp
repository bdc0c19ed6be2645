// Loads and stores of rows: rectangles of matrices.

#include "sim_engine/base/check.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim {

namespace {

void check_rows(const ElementRange& elements, std::int64_t size) {
  KB_CHECK(elements.begin >= 0 && elements.columns >= 0 && elements.rows >= 0 &&
               (elements.rows <= 1 || elements.pitch >= elements.columns) && elements.end() <= size,
           "elements {} of a region of {}", to_string(elements), size);
}

}  // namespace

Value MemoryStore::load(RegionId id, const ElementRange& elements) {
  const Region& from = region(id);
  check_rows(elements, from.element_count);
  if (elements.is_contiguous()) return load(id, elements.begin, elements.count());
  if (!needs_node(elements.count())) return {from.dtype, elements.count()};
  const IntervalMap::Place place = from.values.find(elements.begin);
  if (from.values.end_of(place) < elements.end()) {  // the rows lie in several values
    for (std::int64_t i = 0; i < elements.rows; ++i) {
      add_pieces(from, elements.row(i).begin, elements.row(i).end());
    }
    const Value loaded = joined_pieces(from.dtype, elements.count());
    pieces_.clear();
    return loaded;
  }
  const IntervalMap::Interval& interval = from.values.at(place);
  const NodeRange base = find_base(*interval.value.node());
  if (base.node->kind == ValueKind::constant) {
    return repeated(*base.node, elements.count());
  }
  const Value loaded(pool_->create(ValueKind::rows, from.dtype, elements.count()));
  ValueNode& node = *loaded.node();
  node.inputs[0] = NodeRef(base.node);
  node.offset = base.offset + interval.offset + (elements.begin - interval.begin);
  node.form = {elements.rows, elements.pitch, elements.columns};
  return loaded;
}

void MemoryStore::store(RegionId id, const ElementRange& elements, const Value& value) {
  Region& into = region(id);
  check_rows(elements, into.element_count);
  KB_CHECK(value.element_count() == elements.count(), "{} elements stored as {}",
           value.element_count(), elements.count());
  if (elements.is_contiguous() || !needs_node(elements.count())) {
    return store(id, elements.begin, value);
  }
  KB_CHECK(value.dtype() == into.dtype, "{} stored to a region of {}", name_of(value.dtype()),
           name_of(into.dtype));
  check_own(value);
  ++into.write_count;
  for (std::int64_t i = 0; i < elements.rows; ++i) {
    const ElementRange row = elements.row(i);
    into.values.put(row.begin, row.end(), i * elements.columns, value);
  }
}

Value MemoryStore::by_index(ValueKind kind, const Value& indices, std::span<const Value> parts,
                            const IndexedRows& rows, DType dtype) {
  const std::int64_t results = kind == ValueKind::index_add ? rows.count : indices.element_count();
  const std::int64_t count = results * rows.columns;
  if (!needs_node(count)) return {dtype, count};
  if (indices.element_count() == 0 || rows.count == 0) return constant(dtype, count, 0.0);
  check_own(indices);
  const Value result(pool_->create(kind, dtype, count));
  ValueNode& node = *result.node();
  node.inputs[0] = indices.ref();
  node.whole = rows.first;
  node.form = {indices.element_count(), rows.count, rows.columns};
  for (const Value& part : parts) {
    if (part.element_count() == 0) continue;
    check_own(part);
    add_piece(part, 0, part.element_count());
  }
  node.pieces = pieces_;
  pieces_.clear();
  return result;
}

Value MemoryStore::index_select(const Value& indices, std::span<const Value> parts,
                                const IndexedRows& rows) {
  return by_index(ValueKind::index_select, indices, parts, rows, parts.front().dtype());
}

Value MemoryStore::index_add(const Value& indices, std::span<const Value> parts,
                             const IndexedRows& rows, DType dtype) {
  return by_index(ValueKind::index_add, indices, parts, rows, dtype);
}

}  // namespace kernbench::sim
