#include "runtime/ops/elements.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tensor/tensor_storage.h"

namespace kernbench::ops {

namespace {

tl::Tensor load_block(tl::Context& tl, const LocalPart& part, const MatrixBlock& block) {
  return tl.load(part.data + block.row * part.columns + block.column, {block.height, block.width},
                 part.data.dtype(), part.columns);
}

// Which part of the result's shape an operand has.
enum class Extent { all, along_columns, along_rows };

Extent extent_of(const Tensor& tensor, const Tensor& result) {
  if (tensor.shape() == result.shape()) return Extent::all;
  const bool has_rows = tensor.shape().rank() == result.shape().rank();
  return has_rows ? Extent::along_rows : Extent::along_columns;
}

// Loads an operand's blocks; for a vector along columns it keeps the last one.
class Operand {
 public:
  Operand(const Tensor& tensor, const Tensor& result, const tl::Context& tl)
      : part_(local_part(tensor, tl)), extent_(extent_of(tensor, result)) {}

  tl::Tensor block(tl::Context& tl, const MatrixBlock& block) {
    if (extent_ == Extent::all) return load_block(tl, part_, block);
    if (extent_ == Extent::along_rows) {
      return tl.load(part_.data + block.row, {block.height, 1}, part_.data.dtype());
    }
    if (!kept_ || block.column != column_) {
      kept_.reset();
      kept_ = load_block(tl, part_, {0, block.column, 1, block.width});
      column_ = block.column;
    }
    return *kept_;
  }

 private:
  LocalPart part_;
  Extent extent_;
  std::optional<tl::Tensor> kept_;
  std::int64_t column_ = 0;
};

bool has_vector(const Tensor& result, const std::vector<Tensor>& operands) {
  return std::ranges::any_of(
      operands, [&](const Tensor& operand) { return extent_of(operand, result) != Extent::all; });
}

std::vector<tl::Tensor> load_blocks(tl::Context& tl, std::vector<Operand>& sources,
                                    const MatrixBlock& block) {
  std::vector<tl::Tensor> blocks;
  for (Operand& source : sources) blocks.push_back(source.block(tl, block));
  return blocks;
}

std::vector<Operand> operands_of(const Tensor& result, const std::vector<Tensor>& operands,
                                 const tl::Context& tl) {
  std::vector<Operand> sources;
  for (const Tensor& operand : operands) sources.emplace_back(operand, result, tl);
  return sources;
}

void map_part(tl::Context& tl, const Tensor& result, const std::vector<Tensor>& operands,
              const BlockFunction& function) {
  LocalPart target = local_part(result, tl);
  std::vector<Operand> sources = operands_of(result, operands, tl);
  if (!has_vector(result, operands)) {  // then row boundaries do not matter
    target.columns *= target.rows;
    target.rows = 1;
  }
  for_each_matrix_block(tl, target.rows, target.columns, [&](const MatrixBlock& block) {
    tl.store(target.data + block.row * target.columns + block.column,
             function(tl, load_blocks(tl, sources, block)), target.columns);
  });
}

void map_rows_of_part(tl::Context& tl, const Tensor& result, const std::vector<Tensor>& operands,
                      const RowFunction& function) {
  const LocalPart target = local_part(result, tl);
  std::vector<Operand> sources = operands_of(result, operands, tl);
  const std::size_t rank = target.shape.rank();
  const std::int64_t height = rank < 3 ? target.rows : target.shape[rank - 2];
  const std::int64_t first = rank == 2 ? target.offset[0] : 0;
  const std::int64_t most = std::max<std::int64_t>(block_elements(tl) / target.columns, 1);
  for_each_block(target.rows, height, [&](std::int64_t matrix, std::int64_t) {
    for_each_block(height, most, [&](std::int64_t row, std::int64_t count) {
      const MatrixBlock block{matrix + row, 0, count, target.columns};
      tl.store(target.data + block.row * target.columns,
               function(tl, load_blocks(tl, sources, block), {first + row, count}), target.columns);
    });
  });
}

std::optional<Level> joined(const Level& a, const Level& b, Linearity linearity) {
  if (!a.is_partial() && !b.is_partial()) return a == b ? std::optional(a) : std::nullopt;
  if (a.is_partial() && b.is_partial()) {
    return linearity == Linearity::together ? std::optional(kPartial) : std::nullopt;
  }
  const Level& other = a.is_partial() ? b : a;
  return linearity == Linearity::each && other.is_replicate() ? std::optional(kPartial)
                                                              : std::nullopt;
}

// Returns a vector's level as seen beside a tensor with `rank` dimensions and this level.
std::optional<Level> beside(const Level& vector, const Level& tensor, std::size_t rank) {
  if (vector.is_cut()) return cut(rank - 1);
  if (vector.is_replicate() && tensor.is_cut() && tensor.dimension + 1 < rank) return tensor;
  return vector;
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
      break;
  }
  return "both must lie the same way, or one be partial and the other replicated";
}

}  // namespace

namespace {

// A body that calls `function` owns what that owns.
template <class Function>
KernelBody if_owns(const Function& function, const std::function<void(tl::Context&)>& body) {
  if (!function.owns()) return body;
  return Owning([=](tl::Context& tl) { body(tl); });
}

}  // namespace

void map_into(const Tensor& result, std::string_view name, const std::vector<Tensor>& operands,
              const BlockFunction& function) {
  const auto body = [=](tl::Context& tl) { map_part(tl, result, operands, function); };
  launch(name, {result}, operands, if_owns(function, body));
}

Tensor map(std::string_view name, const Placement& placement, const std::vector<Tensor>& operands,
           const BlockFunction& function) {
  const Tensor& first = operands.front();
  Tensor result = make_like(first, name, first.shape(), first.dtype(), placement);
  map_into(result, name, operands, function);
  return result;
}

void map_rows_into(const Tensor& result, std::string_view name, const std::vector<Tensor>& operands,
                   const RowFunction& function) {
  const std::int64_t columns = result.shape()[result.shape().rank() - 1];
  const auto body = [=](tl::Context& tl) { map_rows_of_part(tl, result, operands, function); };
  launch_on_rows(name, {result}, operands, columns, if_owns(function, body));
}

Tensor map_rows(std::string_view name, const Placement& placement,
                const std::vector<Tensor>& operands, const RowFunction& function) {
  const Tensor& first = operands.front();
  Tensor result = make_like(first, name, first.shape(), first.dtype(), placement);
  map_rows_into(result, name, operands, function);
  return result;
}

Placement elementwise_placement(std::string_view name, const Tensor& a, const Tensor& b,
                                Linearity linearity) {
  check_operands(name, {a, b});
  const std::size_t rank = a.shape().rank();
  const bool is_vector = a.shape() != b.shape() && rank > 1 && b.shape().rank() == 1;
  if (a.shape() != b.shape() && !(is_vector && b.shape()[0] == a.shape()[rank - 1])) {
    refuse_shapes(name,
                  fmt::format("the size of tensor '{}' {} must match the size of tensor '{}' "
                              "{}, or be a vector along the last dimension of it",
                              b.name(), to_string(b.shape()), a.name(), to_string(a.shape())));
  }
  const auto rule = [&](Level of_a, Level of_b) -> std::optional<Level> {
    const auto seen = is_vector ? beside(of_b, of_a, rank) : of_b;
    return seen ? joined(of_a, *seen, linearity) : std::nullopt;
  };
  const auto placement = by_level(placement_of(a), placement_of(b), rule);
  if (!placement) refuse_placements(name, a, b, what_fits(linearity));
  return *placement;
}

Tensor copy_of(const Tensor& x) {
  return map("copy", placement_of(x), {x},
             [](tl::Context&, std::span<const tl::Tensor> of) { return of[0]; });
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  return map("add", elementwise_placement("add", a, b, Linearity::together), {a, b},
             [](tl::Context&, std::span<const tl::Tensor> of) { return of[0] + of[1]; });
}

void add_into(const Tensor& target, const Tensor& x) {
  elementwise_placement("add to a gradient", target, x, Linearity::together);
  map_into(target, "add", {target, x},
           [](tl::Context&, std::span<const tl::Tensor> of) { return of[0] + of[1]; });
}

Tensor sum_of_rows(const Tensor& x) {
  const std::size_t last = x.shape().rank() - 1;
  const auto placement = by_level(placement_of(x), [&](Level level) -> std::optional<Level> {
    if (!level.is_cut()) return level;
    return level.dimension == last ? cut(0) : kPartial;
  });
  Tensor result = make_like(x, "sum_of_rows", {x.shape()[last]}, x.dtype(), *placement);
  launch("sum_of_rows", {result}, {x}, [=](tl::Context& tl) {
    const LocalPart source = local_part(x, tl);
    const LocalPart target = local_part(result, tl);
    const std::int64_t most = block_elements(tl);
    for_each_block(source.columns, most, [&](std::int64_t column, std::int64_t width) {
      tl::Tensor sum = tl.zeros({1, width}, DType::f32);
      for_each_block(
          source.rows, std::max<std::int64_t>(most / width, 1),
          [&](std::int64_t row, std::int64_t height) {
            const tl::Tensor block = load_block(tl, source, {row, column, height, width});
            sum = sum + tl.sum(tl.cast(block, DType::f32), 0, {.keep_dims = true});
          });
      tl.store(target.data + column, tl.cast(sum, x.dtype()));
    });
  });
  return result;
}

}  // namespace kernbench::ops
