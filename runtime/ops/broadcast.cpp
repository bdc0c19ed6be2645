#include "runtime/ops/broadcast.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/check.h"

namespace kernbench::ops {

namespace {

constexpr std::size_t kMostOperands = 32;  // bits of BroadcastLoop::repeats

// True if an operand has no such dimension, or one element along it beside several.
bool repeats_along(const Shape& operand, const Shape& result, std::size_t dimension) {
  const std::size_t missing = result.rank() - operand.rank();
  return dimension < missing || operand[dimension - missing] != result[dimension];
}

// Returns an operand's level as one of the result; nullopt if it is cut where it repeats.
std::optional<Level> seen_in(const Level& level, const Shape& operand, const Shape& result) {
  if (!level.is_cut()) return level;
  const std::size_t dimension = level.dimension + result.rank() - operand.rank();
  if (repeats_along(operand, result, dimension)) return std::nullopt;
  return cut(dimension);
}

bool may_be_partial(std::size_t partial, std::size_t count, bool is_first, Linearity linearity) {
  switch (linearity) {
    case Linearity::none:
      return false;
    case Linearity::together:
      return partial == count;
    case Linearity::each:
      return partial == 1;
    case Linearity::first:
      break;
  }
  return partial == 1 && is_first;
}

std::optional<Level> joined(const std::vector<Tensor>& operands, const std::vector<Level>& levels,
                            const Shape& shape, Linearity linearity) {
  std::size_t partial = 0;
  std::optional<Level> cut;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto seen = seen_in(levels[i], operands[i].shape(), shape);
    if (!seen || (cut && seen->is_cut() && *seen != *cut)) return std::nullopt;
    if (seen->is_partial()) ++partial;
    if (seen->is_cut()) cut = seen;
  }
  if (partial > 0) {
    const bool is_sum =
        !cut && may_be_partial(partial, operands.size(), levels.front().is_partial(), linearity);
    return is_sum ? std::optional(kPartial) : std::nullopt;
  }
  if (!cut) return kReplicate;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_local =
        levels[i].is_cut() || repeats_along(operands[i].shape(), shape, cut->dimension);
    if (!is_local) return std::nullopt;
  }
  return cut;
}

std::string_view what_fits(Linearity linearity) {
  switch (linearity) {
    case Linearity::none:
      return "both must lie the same way, and not be partial: all_reduce what is";
    case Linearity::together:
      return "both must lie the same way; a partial tensor is a sum that only a collective makes "
             "whole: all_reduce it first (copy_to_tensor_model_parallel_region does so to a "
             "gradient)";
    case Linearity::each:
      return "both must lie the same way, or one be partial and the other replicated";
    case Linearity::first:
      break;
  }
  return "both must lie the same way, or the first be partial and the second replicated";
}

[[noreturn]] void refuse(std::string_view name, const std::vector<Tensor>& operands,
                         Linearity linearity) {
  if (operands.size() > 1) {
    refuse_placements(name, operands[0], operands[1], what_fits(linearity));
  }
  refuse_placement(name, operands[0],
                   "its holders have summands, and this needs the sum: all_reduce it first");
}

}  // namespace

Shape broadcast_sizes(std::string_view name, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const std::size_t rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> sizes(rank);
  for (std::size_t i = 0; i < rank; ++i) {  // from the last dimension on
    const std::int64_t of_a = i < a.rank() ? a[a.rank() - 1 - i] : 1;
    const std::int64_t of_b = i < b.rank() ? b[b.rank() - 1 - i] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      refuse_shapes(name, fmt::format("The size of tensor a ({}) must match the size of tensor b "
                                      "({}) at non-singleton dimension {}: {} beside {}",
                                      of_a, of_b, rank - 1 - i, to_string(a), to_string(b)));
    }
    sizes[rank - 1 - i] = of_a == 1 ? of_b : of_a;
  }
  return Shape(sizes);
}

Shape broadcast_shape(std::string_view name, const std::vector<Tensor>& operands) {
  Shape shape = operands.front().shape();
  for (const Tensor& operand : operands) shape = broadcast_sizes(name, shape, operand.shape());
  return shape;
}

Placement elementwise_placement(std::string_view name, const std::vector<Tensor>& operands,
                                const Shape& shape, Linearity linearity) {
  std::vector<Placement> placements;
  std::vector<Level> cubes;
  std::vector<Level> pes;
  for (const Tensor& operand : operands) {
    placements.push_back(placement_of(operand));
    cubes.push_back(placements.back().cube);
    pes.push_back(placements.back().pe);
  }
  const auto cube = joined(operands, cubes, shape, linearity);
  const auto pe = joined(operands, pes, shape, linearity);
  if (!cube || !pe) refuse(name, operands, linearity);
  Placement placement = placements.front();
  placement.cube = *cube;
  placement.pe = *pe;
  return placement;
}

Placement elementwise_placement(std::string_view name, const Tensor& a, const Tensor& b,
                                Linearity linearity) {
  check_operands(name, {a, b});
  return elementwise_placement(name, {a, b}, broadcast_shape(name, {a, b}), linearity);
}

bool has_rows_of(const Shape& domain, const Shape& shape) {
  return shape.rank() == domain.rank() &&
         std::equal(shape.begin(), shape.end() - 1, domain.begin());
}

std::vector<BroadcastLoop> broadcast_loops(const Shape& result, const Shape& part_of_result,
                                           const std::vector<Tensor>& operands, Along along) {
  KB_CHECK(operands.size() <= kMostOperands, "an operator of {} operands", operands.size());
  std::vector<BroadcastLoop> loops;
  for (std::size_t d = 0; d < result.rank(); ++d) {
    const bool is_apart = result.rank() - d <= static_cast<std::size_t>(along);
    if (part_of_result[d] == 1 && !is_apart) continue;
    BroadcastLoop loop{part_of_result[d]};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (repeats_along(operands[i].shape(), result, d)) loop.repeats |= 1U << i;
    }
    if (!loops.empty() && loops.back().repeats == loop.repeats && !is_apart) {
      loops.back().size *= loop.size;
    } else {
      loops.push_back(loop);
    }
  }
  while (loops.size() < 2) loops.insert(loops.begin(), BroadcastLoop{});
  return loops;
}

BroadcastOperand::BroadcastOperand(const Tensor& operand, std::size_t index,
                                   const std::vector<BroadcastLoop>& loops, const tl::Context& tl)
    : data_(local_part(operand, tl).data) {
  const auto repeats = [&](std::size_t loop) { return (loops[loop].repeats >> index & 1U) != 0; };
  repeats_columns_ = repeats(loops.size() - 1);
  repeats_rows_ = repeats(loops.size() - 2);
  pitch_ = repeats_columns_ ? 1 : loops.back().size;
  std::int64_t stride = pitch_ * (repeats_rows_ ? 1 : loops[loops.size() - 2].size);
  strides_.resize(loops.size() - 2);
  for (std::size_t i = strides_.size(); i-- > 0;) {
    strides_[i] = repeats(i) ? 0 : stride;
    if (!repeats(i)) stride *= loops[i].size;
  }
}

tl::Tensor BroadcastOperand::block(tl::Context& tl, const std::vector<std::int64_t>& outer,
                                   const MatrixBlock& block) {
  const std::int64_t height = repeats_rows_ ? 1 : block.height;
  const std::int64_t width = repeats_columns_ ? 1 : block.width;
  std::int64_t first =
      (repeats_rows_ ? 0 : block.row * pitch_) + (repeats_columns_ ? 0 : block.column);
  for (std::size_t i = 0; i < outer.size(); ++i) first += outer[i] * strides_[i];
  const auto load = [&] {
    return repeats_columns_ ? tl.load(data_ + first, {height, width}, data_.dtype())
                            : tl.load(data_ + first, {height, width}, data_.dtype(), pitch_);
  };
  if (!repeats_rows_) return load();
  if (!kept_ || kept_first_ != first || kept_->shape()[1] != width) {
    kept_.reset();
    kept_ = load();
    kept_first_ = first;
  }
  return *kept_;
}

}  // namespace kernbench::ops
