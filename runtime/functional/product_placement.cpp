#include "runtime/functional/product_placement.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/ops/elements.h"
#include "runtime/tensor/strided_view.h"

namespace kernbench::ops {

namespace {

// The role of an operand's dimension in the product.
enum class Role { batch, rows, depth, columns };

Role role_in_a(const GemmOperands& operands, std::size_t dimension) {
  const std::size_t rank = operands.a.shape().rank();
  if (dimension + 1 == rank) return operands.transpose_a ? Role::rows : Role::depth;
  if (!operands.is_folded && dimension + 2 < rank) return Role::batch;
  return operands.transpose_a ? Role::depth : Role::rows;
}

Role role_in_b(const GemmOperands& operands, std::size_t dimension) {
  const std::size_t rank = operands.b.shape().rank();
  if (dimension + 1 == rank) return operands.transpose_b ? Role::depth : Role::columns;
  if (!operands.is_folded && dimension + 2 < rank) return Role::batch;
  return operands.transpose_b ? Role::columns : Role::depth;
}

// Returns the placement of the product of two parts on one level; `rank` is its number of
// dimensions.
std::optional<Level> level_of_product(const GemmOperands& operands, std::size_t rank,
                                      const Level& a, const Level& b) {
  if (a.is_partial() || b.is_partial()) {
    const Level& other = a.is_partial() ? b : a;
    return other.is_replicate() ? std::optional(kPartial) : std::nullopt;
  }
  if (a.is_replicate() && b.is_replicate()) return kReplicate;
  // Every holder has all of an operand that repeats along the batch.
  const auto cuts_batch = [&](const Level& level, const Tensor& other) {
    return !operands.is_folded && rank > 2 && level == cut(0) && runtime::repeats_along(other, 0);
  };
  if (b.is_replicate() && cuts_batch(a, operands.b)) return a;
  if (a.is_replicate() && cuts_batch(b, operands.a)) return b;
  const std::size_t rows = operands.is_folded ? 0 : rank - 2;
  if (b.is_replicate()) {
    const bool cuts_rows = role_in_a(operands, a.dimension) == Role::rows;
    return cuts_rows ? std::optional(cut(rows)) : std::nullopt;
  }
  const Role role = role_in_b(operands, b.dimension);
  if (a.is_replicate()) {
    return role == Role::columns ? std::optional(cut(rank - 1)) : std::nullopt;
  }
  if (role != role_in_a(operands, a.dimension)) return std::nullopt;
  if (role == Role::batch) return cut(0);
  return role == Role::depth ? std::optional(kPartial) : std::nullopt;
}

}  // namespace

Placement placement_of_product(const GemmOperands& operands, std::size_t rank) {
  const auto as_read = [](const Tensor& factor) {
    Placement placement = placement_of(factor);
    if (std::exchange(placement.is_shared, false)) placement.cube = placement.pe = kReplicate;
    return placement;
  };
  const auto placement = by_level(
      as_read(operands.a), as_read(operands.b),
      [&](const Level& a, const Level& b) { return level_of_product(operands, rank, a, b); });
  if (placement) return *placement;
  refuse_placements(
      operands.name(), operands.a, operands.b,
      "on each level one operand may be cut along what the other has not, both along what is "
      "summed over or along the batch, or one be partial beside a replicated one");
}

}  // namespace kernbench::ops
