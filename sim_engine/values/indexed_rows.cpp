#include "sim_engine/values/indexed_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "sim_engine/values/element_format.h"
#include "sim_engine/values/operand.h"

namespace kernbench::sim {

namespace {

constexpr std::int64_t kNone = -1;

// The row's number, counted from the first one, whatever the sizes of both.
std::int64_t count_from(std::int64_t first, std::int64_t number) {
  if (number < first) return kNone;
  const std::uint64_t distance =
      static_cast<std::uint64_t>(number) - static_cast<std::uint64_t>(first);
  return distance >> 63 != 0 ? kNone : static_cast<std::int64_t>(distance);
}
std::int64_t count_from(std::int64_t first, float number) {
  constexpr float kMost = 0x1p62F;  // beyond it a number of f32 may have no place in 64 bits
  const bool is_index = number > -kMost && number < kMost && number == std::floor(number);
  return is_index ? count_from(first, static_cast<std::int64_t>(number)) : kNone;
}

template <class Number>
std::vector<std::int64_t> read_as(ValueNode& node) {
  const std::int64_t count = node.form.outer;
  Operand<Number> operand;
  operand.open(*node.inputs[0].node(), node);
  std::vector<Number> decoded;
  const Number* const numbers = operand.elements(0, count, decoded);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(count_from(node.whole, numbers[i]));
  return indices;
}

std::vector<std::int64_t> read_indices(ValueNode& node) {
  return is_integral(node.inputs[0].node()->dtype) ? read_as<std::int64_t>(node)
                                                   : read_as<float>(node);
}

// The elements that a node's pieces form, one piece after the other.
class Pieces {
 public:
  explicit Pieces(const ValueNode& node) : node_(node) {
    std::int64_t begin = 0;
    for (const ValuePiece& piece : node.pieces) {
      begins_.push_back(begin);
      begin += piece.count;
    }
  }

  // Calls use(elements, piece, count) for the elements [begin, begin + count), piece by piece; of a
  // constant there are no elements.
  template <class Use>
  void for_each(std::int64_t begin, std::int64_t count, const Use& use) const {
    auto index =
        static_cast<std::size_t>(std::ranges::upper_bound(begins_, begin) - begins_.begin() - 1);
    for (const std::int64_t end = begin + count; begin < end; ++index) {
      const ValuePiece& piece = node_.pieces[index];
      const std::int64_t in_piece = begin - begins_[index];
      const std::int64_t size = std::min(end - begin, piece.count - in_piece);
      const NodeRange base = find_base(*piece.value.node());
      const std::int64_t first = base.offset + piece.offset + in_piece;
      const bool is_constant = base.node->kind == ValueKind::constant;
      use(is_constant ? nullptr : base.node->data.get() + first * size_of(base.node->dtype),
          *base.node, size);
      begin += size;
    }
  }

 private:
  const ValueNode& node_;
  std::vector<std::int64_t> begins_;
};

}  // namespace

void compute_index_select(ValueNode& node) {
  const auto& [outer, rows, columns] = node.form;
  const Pieces table(node);
  const Bytes row_bytes = columns * size_of(node.dtype);
  std::byte* target = node.data.get();
  for (const std::int64_t index : read_indices(node)) {
    if (index < 0 || index >= rows) {
      std::memset(target, 0, static_cast<std::size_t>(row_bytes));
      target += row_bytes;
      continue;
    }
    table.for_each(index * columns, columns,
                   [&](const std::byte* elements, const ValueNode& piece, std::int64_t count) {
                     const Bytes bytes = count * size_of(node.dtype);
                     const auto size = static_cast<std::size_t>(count);
                     if (elements == nullptr && is_integral(node.dtype)) {
                       encode(node.dtype, std::vector<std::int64_t>(size, piece.whole), target);
                     } else if (elements == nullptr) {
                       encode(node.dtype, std::vector<float>(size, piece.scalar), target);
                     } else {
                       std::memcpy(target, elements, static_cast<std::size_t>(bytes));
                     }
                     target += bytes;
                   });
  }
}

void compute_index_add(ValueNode& node) {
  const auto& [outer, rows, columns] = node.form;
  const Pieces source(node);
  std::vector<float> sums(static_cast<std::size_t>(node.count));
  std::vector<float> decoded;
  std::int64_t row = -1;
  for (const std::int64_t index : read_indices(node)) {
    ++row;
    if (index < 0 || index >= rows) continue;
    float* sum = sums.data() + index * columns;
    source.for_each(row * columns, columns,
                    [&](const std::byte* elements, const ValueNode& piece, std::int64_t count) {
                      decoded.assign(static_cast<std::size_t>(count), piece.scalar);
                      if (elements != nullptr) decode(piece.dtype, elements, decoded);
                      for (const float element : decoded) *sum++ += element;
                    });
  }
  encode(node.dtype, sums, node.data.get());
}

}  // namespace kernbench::sim
