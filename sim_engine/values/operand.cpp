#include "sim_engine/values/operand.h"

#include <algorithm>

#include "sim_engine/base/check.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::sim {

template <class Number>
void Operand<Number>::open(ValueNode& node, const ValueNode& result) {
  NodeRange base = find_base(node);
  is_broadcast_ = base.node->is_broadcast();
  if (is_broadcast_) {
    form_ = base.node->form;
    begin_ = base.offset;
    base = find_base(*base.node->inputs[0].node());
  }
  KB_CHECK(is_computed(*base.node), "an operand that is not computed");
  dtype_ = base.node->dtype;
  if (base.node->kind == ValueKind::constant) {
    data_ = nullptr;
    std::fill_n(converted_.data(), std::min(node.count, kBlock), number_of<Number>(*base.node));
  } else {
    data_ = elements_of(*base.node, result) + base.offset * size_of(dtype_);
  }
}

template <class Number>
const Number* Operand<Number>::elements(std::int64_t first, std::int64_t count,
                                        std::vector<Number>& buffer) {
  KB_CHECK(!is_broadcast_, "a broadcast is read in blocks");
  if (data_ != nullptr && dtype_ == kOwnType) return block(first, count);
  buffer.resize(static_cast<std::size_t>(count));
  if (data_ == nullptr) {
    std::ranges::fill(buffer, converted_[0]);
  } else {
    decode(dtype_, data_ + first * size_of(dtype_), buffer);
  }
  return buffer.data();
}

template <class Number>
const Number* Operand<Number>::converted_block(const std::byte* source, std::int64_t count) {
  decode(dtype_, source, make_span(converted_.data(), count));
  return converted_.data();
}

// Fills the block stretch by stretch: one source element repeated (inner == 1), or up to `inner`
// consecutive source elements.
template <class Number>
const Number* Operand<Number>::broadcast_block(std::int64_t first, std::int64_t count) {
  const auto [outer, length, inner] = form_;
  std::int64_t at = begin_ + first;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = at / (length * inner);
    const std::int64_t column = at % inner;
    const std::int64_t left = inner == 1 ? (row + 1) * length - at : inner - column;
    const std::int64_t run = std::min(left, count - done);
    const std::byte* const source = data_ + (row * inner + column) * size_of(dtype_);
    Number* const target = converted_.data() + done;
    decode(dtype_, source, make_span(target, inner == 1 ? 1 : run));
    if (inner == 1) std::fill_n(target + 1, run - 1, *target);
    done += run;
    at += run;
  }
  return converted_.data();
}

template class Operand<float>;
template class Operand<std::int64_t>;

}  // namespace kernbench::sim
