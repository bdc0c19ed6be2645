// The device's memories as the data side sees them: regions, each a map from intervals of
// elements to the value that was written there last.
//
// Models:      which version of which bytes an operation reads; nothing is computed here.
// Not modeled: time, addresses, capacity.
//
// Every write makes a new version of an interval and every load returns the version of its moment,
// so memory that is used again cannot be read stale.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"
#include "sim_engine/values/interval_map.h"
#include "sim_engine/values/value.h"

namespace kernbench::sim {

// The rows of a matrix that are found by their number.
struct IndexedRows {
  std::int64_t first = 0;  // the number of the first one
  std::int64_t count = 0;
  std::int64_t columns = 0;
};

class MemoryStore {
 public:
  // Without data (a timing-only run) values have only a type and a count, and cost nothing.
  explicit MemoryStore(bool data);
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  bool has_data() const { return data_; }

  // A region that was never written reads as quiet NaN.
  // REQUIRES: element_count >= 0
  RegionId create_region(DType dtype, std::int64_t element_count);
  // Values that were loaded from the region stay valid.  The id must not be used again.
  void destroy_region(RegionId id);
  bool is_live(RegionId id) const {
    return id.index < regions_.size() && regions_[id.index].live &&
           regions_[id.index].generation == id.generation;
  }
  // Regions that were live together are so as long as this is the same.
  std::uint64_t destroyed_count() const { return destroyed_count_; }
  DType dtype(RegionId id) const { return region(id).dtype; }
  std::int64_t element_count(RegionId id) const { return region(id).element_count; }
  // How often the region was written, which is its version number.
  std::uint64_t write_count(RegionId id) const { return region(id).write_count; }

  // `element_count` times `scalar`, rounded once to the type; a whole number is exact in i64.
  Value constant(DType dtype, std::int64_t element_count, const Scalar& scalar);
  // The given elements, each rounded once to the type.
  Value literal(DType dtype, std::span<const float> elements);
  Value literal(DType dtype, std::span<const std::int64_t> elements);
  // The numbers start, start + 1, ..., each rounded to the type.
  Value ramp(DType dtype, std::int64_t start, std::int64_t element_count);
  // a op b, element by element: in f32, then rounded once to the type.
  // REQUIRES: a and b have the same type and the same number of elements
  Value math(MathOp op, const Value& a, const Value& b);
  // Any operation, element by element; the result has type `dtype`.
  // REQUIRES: as many operands as `op` has, of the same number of elements
  Value math(MathOp op, DType dtype, std::span<const Value> operands);
  // An operation along an axis; the result has the operand's type.
  // REQUIRES: the operand has source_count(op, form) elements; for maximum and minimum an axis that
  // is not empty; op is not ramp
  Value along_axis(AxisOp op, const Value& operand, const AxisForm& form);

  // accumulator + a b, of matrices stored row by row: the products are summed in f32, in an order
  // that depends on the sizes alone, and the result is rounded once to `dtype`.  An accumulator
  // without elements counts as 0.
  // REQUIRES: a has m k elements, b k n, the accumulator m n in f32 or none
  Value gemm(const GemmSize& size, const Value& a, const Value& b, const Value& accumulator,
             DType dtype);

  // Rows of `columns` elements of a matrix, which `parts` form one after the other: for each index
  // the row with this number, counted from `first`, or zeros where there is none (torch's
  // index_select).
  Value index_select(const Value& indices, std::span<const Value> parts, const IndexedRows& rows);
  // The inverse (torch's index_add): a matrix of `rows.count` rows to which the rows that `parts`
  // form are added, each to the row that its index numbers, in their order, in f32, and rounded
  // once to `dtype`. REQUIRES: as many rows as indices; the matrix is of floating point
  Value index_add(const Value& indices, std::span<const Value> parts, const IndexedRows& rows,
                  DType dtype);

  // Elements [offset, offset + count) of a value.
  // REQUIRES: the range lies in the value
  Value slice(const Value& value, std::int64_t offset, std::int64_t count);
  // Values of one type, one after the other.
  // REQUIRES: at least one
  Value concat(std::span<const Value> values);

  // A placeholder for the result of an operation that has been issued but has not happened yet.
  Value declare(DType dtype, std::int64_t element_count);
  // Makes `placeholder` stand for `source` wherever it is used.  Call it once per placeholder.
  // REQUIRES: the same type and number of elements; source does not depend on placeholder
  void bind(const Value& placeholder, const Value& source);

  // Elements [begin, begin + count) as they are now.  If they are exactly one value that was stored
  // there, the result is that value itself.
  // REQUIRES: the range lies in the region
  Value load(RegionId id, std::int64_t begin, std::int64_t count);
  // Loads rows.
  Value load(RegionId id, const ElementRange& elements);
  // REQUIRES: value has the region's type; [begin, begin + value.element_count()) lies in it
  void store(RegionId id, std::int64_t begin, const Value& value);
  // REQUIRES: value has the region's type and as many elements; they lie in the region
  void store(RegionId id, const ElementRange& elements, const Value& value);

  // Calls visit(const Value&) for what lies in regions, region by region; none is empty.
  template <class Visit>
  void for_each_value(const Visit& visit) const {
    for (const Region& region : regions_) {
      if (region.live) region.values.for_each_value(visit);
    }
  }

  // The nodes and bytes that are alive, for reports and tests.
  std::int64_t live_value_count() const { return pool_->live_node_count(); }
  Bytes live_bytes() const { return pool_->live_bytes(); }

 private:
  struct alignas(64) Region {
    DType dtype = DType::f32;
    bool live = false;
    std::uint32_t generation = 0;
    std::int64_t element_count = 0;
    std::uint64_t write_count = 0;
    IntervalMap values;  // without data none
  };
  struct ClosePool {
    void operator()(ValuePool* pool) const { pool->close(); }
  };

  void check_live(RegionId id) const;
  const Region& region(RegionId id) const { return check_live(id), regions_[id.index]; }
  Region& region(RegionId id) { return check_live(id), regions_[id.index]; }
  bool needs_node(std::int64_t element_count) const { return data_ && element_count > 0; }
  void check_own(const Value& value) const;
  Value by_index(ValueKind kind, const Value& indices, std::span<const Value> parts,
                 const IndexedRows& rows, DType dtype);
  void add_pieces(const Region& from, std::int64_t begin, std::int64_t end);
  void add_piece(const Value& value, std::int64_t offset, std::int64_t count);
  // A constant of the same number.
  Value repeated(const ValueNode& constant, std::int64_t element_count);
  Value joined_pieces(DType dtype, std::int64_t count);

  bool data_;
  std::unique_ptr<ValuePool, ClosePool> pool_{ValuePool::open()};
  std::vector<Region> regions_;
  std::vector<std::uint32_t> free_regions_;
  std::uint64_t destroyed_count_ = 0;
  std::vector<ValuePiece> pieces_;  // of the load at hand
};

}  // namespace kernbench::sim
