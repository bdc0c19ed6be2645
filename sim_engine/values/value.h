// Values: what operations compute, each named by a handle and never by an address.
//
// Every operation makes a new value, and a value never changes; so a later write cannot alias an
// earlier read, and whatever a value depends on may be computed at any time, once.  A value's
// inputs live as long as it needs them: until it is computed or nobody refers to it any more.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

enum class ValueKind : std::uint8_t {
  constant,    // one scalar, repeated
  data,        // computed, or given by the host
  math,        // an operation on the elements of one, two or three values
  along_axis,  // an operation along an axis of another value
  gemm,        // a matrix product: of two values, added to a third if there is one
  rows,        // rows of another value that lie equally far apart
  view,        // a stretch of another value; one that is not bound to a value yet is a placeholder
  concat,      // stretches of several values, one after the other
  index_select,  // rows of a matrix that another value numbers
  index_add,     // rows, each added to the row of a matrix of zeros that another value numbers
};

struct ValueNode;

// A counted reference to a node, or none.  For one thread (the counts are not atomic).
class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(ValueNode* node);
  NodeRef(const NodeRef& other) noexcept;
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef();

  ValueNode* node() const { return node_; }

 private:
  ValueNode* node_ = nullptr;
};

// A value: a reference to its node, its type and its number of elements.  Cheap to copy.
// Values without elements, and all values of a timing-only store, have no node.
class Value {
 public:
  Value() = default;
  Value(DType dtype, std::int64_t element_count) : count_(element_count), dtype_(dtype) {}
  explicit Value(ValueNode* node);

  DType dtype() const { return dtype_; }
  std::int64_t element_count() const { return count_; }

  // True if both are handles to the same value.  Values without a node are the same if their types
  // and counts are equal.
  bool same_as(const Value& other) const {
    return node() == other.node() && count_ == other.count_ && dtype_ == other.dtype_;
  }

  // The store and the executor read the node.  It is null if the value has no node (see above).
  ValueNode* node() const { return ref_.node(); }
  const NodeRef& ref() const { return ref_; }

 private:
  NodeRef ref_;
  std::int64_t count_ = 0;
  DType dtype_ = DType::f32;
};

// Elements [offset, offset + count) of `value`.
struct ValuePiece {
  Value value;
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

class ValuePool;

struct ValueNode {
  ValuePool* pool = nullptr;
  std::uint32_t reference_count = 0;
  ValueKind kind = ValueKind::constant;
  DType dtype = DType::f32;
  bool on_path = false;          // the executor is looking at its inputs
  MathOp op = MathOp::add;       // of kind math
  AxisOp axis_op = AxisOp::sum;  // of kind along_axis
  float scalar = 0;              // of a constant; already rounded to dtype
  std::int64_t whole = 0;        // of an integral constant; where a ramp starts; the first index
  std::uint32_t step = 0;        // in the executor's plan, from 1 on; 0: not planned
  std::int64_t count = 0;
  std::array<NodeRef, kMostOperands> inputs;  // as many as there are; of a view, the first
  std::int64_t offset = 0;                    // of a view and of rows, in the input
  // The sizes of kind along_axis; those of a gemm are [m][k][n], of rows their number, pitch and
  // columns, and by index the number of indices, the rows of the matrix and its columns.
  AxisForm form;
  std::vector<ValuePiece> pieces;     // of a concat; by index: of what the rows are taken from
  std::unique_ptr<std::byte[]> data;  // kind data: count elements of dtype
  ValueNode* next = nullptr;          // in a list of the pool

  bool is_bound_view() const { return kind == ValueKind::view && inputs[0].node() != nullptr; }
  bool is_placeholder() const { return kind == ValueKind::view && inputs[0].node() == nullptr; }
  GemmSize gemm_size() const { return {form.outer, form.inner, form.length}; }
  bool is_broadcast() const {
    return kind == ValueKind::along_axis && axis_op == AxisOp::broadcast;
  }
};

// Elements of `node` from `offset` on.  It does not keep the node alive; the value it was found
// from does.
struct NodeRange {
  ValueNode* node = nullptr;
  std::int64_t offset = 0;
};

// Looks through views to where the elements of `node` come from.  It shortens the path, so that
// long chains of views cost little.
NodeRange find_base(ValueNode& node);

// Allocates nodes from slabs and a free list.  It lives until its owner has closed it and the last
// value is gone, so that a value may outlive its store.
class ValuePool {
 public:
  static ValuePool* open() { return new ValuePool; }
  void close();

  // A node without references.
  ValueNode* create(ValueKind kind, DType dtype, std::int64_t count);

  // Gives `node` its storage; the contents are indeterminate.
  std::byte* allocate_data(ValueNode& node);

  // Takes back what allocate_data() gave.
  void release_data(ValueNode& node);

  // Takes back a node whose last reference is gone, and the nodes that only it referred to.  It
  // does not recurse, so chains may be of any length.
  void reclaim(ValueNode* node);

  std::int64_t live_node_count() const { return live_node_count_; }
  Bytes live_bytes() const { return live_bytes_; }

 private:
  ValuePool() = default;
  ~ValuePool() = default;
  ValuePool(const ValuePool&) = delete;
  ValuePool& operator=(const ValuePool&) = delete;

  void grow();
  void recycle(ValueNode& node);

  std::vector<std::unique_ptr<ValueNode[]>> slabs_;
  ValueNode* free_ = nullptr;
  ValueNode* dead_ = nullptr;  // to be recycled
  bool recycling_ = false;
  bool closed_ = false;
  std::int64_t live_node_count_ = 0;
  Bytes live_bytes_ = 0;
  // The storage that was given back last, if it is small: the next node often has the same size,
  // and this takes a fifth of what the allocator does.
  static constexpr Bytes kMostSpareBytes = 64 << 10;
  std::unique_ptr<std::byte[]> spare_;
  Bytes spare_bytes_ = 0;
};

inline NodeRef::NodeRef(ValueNode* node) : node_(node) {
  ++node->reference_count;
}
inline NodeRef::NodeRef(const NodeRef& other) noexcept : node_(other.node_) {
  if (node_ != nullptr) ++node_->reference_count;
}
inline NodeRef::~NodeRef() {
  if (node_ != nullptr && --node_->reference_count == 0) node_->pool->reclaim(node_);
}

inline Value::Value(ValueNode* node) : ref_(node), count_(node->count), dtype_(node->dtype) {}

}  // namespace kernbench::sim
