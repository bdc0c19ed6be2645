// An operand of the evaluation as blocks of f32, whatever the type and place of its elements.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim_engine/values/value.h"

namespace kernbench::sim {

// How many elements are worked on at a time: four blocks of f32 and some more fit into the L1
// cache.
inline constexpr std::int64_t kBlock = 1024;

inline bool is_computed(const ValueNode& node) {
  return node.kind == ValueKind::data || node.kind == ValueKind::constant;
}

// The elements of `node`, of kind data.  It is an operand of `result`, which may have taken over
// its storage.
inline const std::byte* elements_of(const ValueNode& node, const ValueNode& result) {
  return node.data != nullptr ? node.data.get() : result.data.get();
}

inline std::span<float> span_of(float* first, std::int64_t count) {
  return {first, static_cast<std::size_t>(count)};
}

// A computed node or a view of one.  For an element-wise operation also a broadcast, which is read
// from its source and never written out.
class Operand {
 public:
  Operand() = default;
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  // Opens an operand of `result`, which may have taken over the operand's storage.
  // REQUIRES: what `node` views is computed, or a broadcast whose source's base is
  void open(ValueNode& node, const ValueNode& result);

  // Elements [first, first + count); valid until the next call.
  // REQUIRES: count <= kBlock
  const float* block(std::int64_t first, std::int64_t count) {
    if (data_ == nullptr) return converted_.data();
    if (is_broadcast_) return broadcast_block(first, count);
    const std::byte* const source = data_ + first * size_of(dtype_);
    if (dtype_ == DType::f32) return reinterpret_cast<const float*>(source);
    return converted_block(source, count);
  }

  // Like block(), for any count; `buffer` is used if the elements are not f32 in memory.
  // REQUIRES: not a broadcast
  const float* elements(std::int64_t first, std::int64_t count, std::vector<float>& buffer);

 private:
  const float* converted_block(const std::byte* source, std::int64_t count);
  const float* broadcast_block(std::int64_t first, std::int64_t count);

  DType dtype_ = DType::f32;
  bool is_broadcast_ = false;
  const std::byte* data_ = nullptr;  // null for a constant: converted_ always holds it
  AxisForm form_;                    // of a broadcast
  std::int64_t begin_ = 0;           // of a broadcast: the first element's place in it
  alignas(64) std::array<float, kBlock> converted_;
};

}  // namespace kernbench::sim
