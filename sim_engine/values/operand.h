// An operand of the evaluation as blocks of f32 or of i64, whatever the type and place of its
// elements.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "sim_engine/values/value.h"

namespace kernbench::sim {

// The number of elements that are worked on at a time: four blocks of f32 and some more fit into
// the L1 cache.
inline constexpr std::int64_t kBlock = 1024;

inline bool is_computed(const ValueNode& node) {
  return node.kind == ValueKind::data || node.kind == ValueKind::constant;
}

// The elements of `node`, of kind data.  It is an operand of `result`, which may have taken over
// its storage.
inline const std::byte* elements_of(const ValueNode& node, const ValueNode& result) {
  return node.data != nullptr ? node.data.get() : result.data.get();
}

template <class Number>
std::span<Number> make_span(Number* first, std::int64_t count) {
  return {first, static_cast<std::size_t>(count)};
}

// The number that a constant repeats.
template <class Number>
Number number_of(const ValueNode& constant);
template <>
inline float number_of<float>(const ValueNode& constant) {
  return constant.scalar;
}
template <>
inline std::int64_t number_of<std::int64_t>(const ValueNode& constant) {
  return constant.whole;
}

// A computed node or a view of one, as numbers in which the evaluation computes: float or
// std::int64_t.  For an element-wise operation also a broadcast, which is read from its source and
// never written out.
template <class Number>
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
  const Number* block(std::int64_t first, std::int64_t count) {
    if (data_ == nullptr) return converted_.data();
    if (is_broadcast_) return broadcast_block(first, count);
    const std::byte* const source = data_ + first * size_of(dtype_);
    if (dtype_ == kOwnType) return reinterpret_cast<const Number*>(source);
    return converted_block(source, count);
  }

  // Like block(), for any count; `buffer` is used if the elements are not Numbers in memory.
  // REQUIRES: not a broadcast
  const Number* elements(std::int64_t first, std::int64_t count, std::vector<Number>& buffer);

 private:
  static constexpr DType kOwnType = std::is_same_v<Number, float> ? DType::f32 : DType::i64;

  const Number* converted_block(const std::byte* source, std::int64_t count);
  const Number* broadcast_block(std::int64_t first, std::int64_t count);

  DType dtype_ = kOwnType;
  bool is_broadcast_ = false;
  const std::byte* data_ = nullptr;  // null for a constant: converted_ always holds it
  AxisForm form_;                    // of a broadcast
  std::int64_t begin_ = 0;           // of a broadcast: the first element's place in it
  alignas(64) std::array<Number, kBlock> converted_;
};

extern template class Operand<float>;
extern template class Operand<std::int64_t>;

}  // namespace kernbench::sim
