// Loads and stores of rows: rectangles of matrices.

#include <algorithm>
#include <iterator>

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
  const std::size_t index = from.find(elements.begin);
  if (from.end_of(index) < elements.end()) {  // the rows lie in several values
    for (std::int64_t i = 0; i < elements.rows; ++i) {
      add_pieces(from, elements.row(i).begin, elements.row(i).end());
    }
    const Value loaded = joined_pieces(from.dtype, elements.count());
    pieces_.clear();
    return loaded;
  }
  const Interval& interval = from.intervals[index];
  const NodeRange base = base_of(*interval.value.node());
  if (base.node->kind == ValueKind::constant) {
    return constant(from.dtype, elements.count(), base.node->scalar);
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
  // Intervals between the rows stay.  All rows are inserted at once, since every insertion moves
  // the intervals behind it.
  const std::size_t first = into.split(elements.begin);
  const std::size_t last = into.split(elements.end());
  std::vector<Interval> merged;
  std::size_t old = first;
  for (std::int64_t i = 0; i < elements.rows; ++i) {
    merged.push_back({elements.row(i).begin, i * elements.columns, value});
    if (i + 1 == elements.rows) break;
    const std::int64_t gap = elements.row(i).end();
    const std::int64_t gap_end = elements.row(i + 1).begin;
    while (into.end_of(old) <= gap) ++old;
    for (std::size_t at = old; at < last && into.intervals[at].begin < gap_end; ++at) {
      const Interval& kept = into.intervals[at];
      const std::int64_t begin = std::max(kept.begin, gap);
      if (begin < gap_end)
        merged.push_back({begin, kept.offset + (begin - kept.begin), kept.value});
    }
  }
  const auto at = into.intervals.begin();
  const auto erased = into.intervals.erase(at + static_cast<std::ptrdiff_t>(first),
                                           at + static_cast<std::ptrdiff_t>(last));
  into.intervals.insert(erased, std::make_move_iterator(merged.begin()),
                        std::make_move_iterator(merged.end()));
}

}  // namespace kernbench::sim
