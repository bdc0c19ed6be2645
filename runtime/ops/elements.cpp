#include "runtime/ops/elements.h"

#include <algorithm>

#include "runtime/ops/fusion.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/strided_view.h"

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

// Stores the same number everywhere: all operands have one element.
void fill_part(tl::Context& tl, const LocalPart& target, const tl::Tensor& number) {
  const std::int64_t count = target.shape.numel();
  const std::int64_t most = std::min(block_elements(tl), count);
  const tl::Tensor block = tl.zeros({most}, number.dtype()) + tl.reshape(number, {1});
  for_each_block(count, most, [&](std::int64_t begin, std::int64_t size) {
    tl.store(target.data + begin, tl.narrow(block, 0, size));
  });
}

// Returns a block in its whole size, where it has a size of 1 since all operands repeat there.
tl::Tensor whole_block(tl::Context& tl, const tl::Tensor& value, const MatrixBlock& block) {
  const Shape shape{block.height, block.width};
  return value.shape() == shape ? value : tl.zeros(shape, value.dtype()) + value;
}

using BodyOfBlocks =
    std::function<std::vector<tl::Tensor>(tl::Context&, std::vector<tl::Tensor> operands)>;

// Computes this PE's parts of results that have one shape and placement, `most` elements at a time.
void map_part(tl::Context& tl, const std::vector<Tensor>& results,
              const std::vector<Tensor>& operands, std::int64_t most,
              const BodyOfBlocks& function) {
  const LocalPart target = local_part(results.front(), tl);
  if (target.shape.numel() == 0) return;
  const Shape& shape = results.front().shape();
  const std::vector<BroadcastLoop> loops = broadcast_loops(shape, target.shape, operands);
  std::vector<BroadcastOperand> sources;
  for (std::size_t i = 0; i < operands.size(); ++i) sources.emplace_back(operands[i], i, loops, tl);
  const auto values_of = [&](const std::vector<std::int64_t>& outer, const MatrixBlock& block) {
    std::vector<tl::Tensor> blocks;
    for (BroadcastOperand& source : sources) blocks.push_back(source.block(tl, outer, block));
    return function(tl, std::move(blocks));
  };
  std::vector<LocalPart> targets;
  for (const Tensor& result : results) targets.push_back(local_part(result, tl));
  const bool is_filled = target.shape.numel() > 1 &&
                         std::ranges::all_of(operands, [](auto& x) { return x.numel() == 1; });
  if (is_filled) {
    const std::vector<tl::Tensor> numbers = values_of({}, {0, 0, 1, 1});
    for (std::size_t i = 0; i < numbers.size(); ++i) fill_part(tl, targets[i], numbers[i]);
    return;
  }
  const std::int64_t rows = loops[loops.size() - 2].size;
  const std::int64_t columns = loops.back().size;
  std::int64_t first = 0;
  for_each_outer_index(loops, [&](const std::vector<std::int64_t>& outer) {
    for_each_matrix_block(most, rows, columns, [&](const MatrixBlock& block) {
      const std::vector<tl::Tensor> values = values_of(outer, block);
      for (std::size_t i = 0; i < values.size(); ++i) {
        tl.store(targets[i].data + first + block.row * columns + block.column,
                 whole_block(tl, values[i], block), columns);
      }
    });
    first += rows * columns;
  });
}

void map_rows_of_part(tl::Context& tl, const Tensor& result, const std::vector<Tensor>& operands,
                      const RowFunction& function) {
  const LocalPart target = local_part(result, tl);
  if (target.shape.numel() == 0) return;
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

// A body that calls `function` owns what that owns.
template <class Function>
KernelBody if_owns(const Function& function, const std::function<void(tl::Context&)>& body) {
  if (!function.owns()) return body;
  return Owning([=](tl::Context& tl) { body(tl); });
}

}  // namespace

void map_into(const Tensor& result, std::string_view name, const std::vector<Tensor>& operands,
              const BlockFunction& function) {
  const auto body = [=](tl::Context& tl) {
    map_part(tl, {result}, operands, block_elements(tl),
             [&](tl::Context&, const std::vector<tl::Tensor>& blocks) {
               return std::vector{function(tl, blocks)};
             });
  };
  launch(name, {result}, operands, if_owns(function, body));
}

void map_all_into(const std::vector<Tensor>& results, std::string_view name,
                  const std::vector<Tensor>& operands, const BlocksFunction& function,
                  std::size_t most_values) {
  // block_elements() leaves room for a dozen blocks, three of them an operator's own values.
  constexpr std::int64_t kRoom = 12;
  const std::int64_t blocks = std::max(kRoom, kRoom - 3 + static_cast<std::int64_t>(most_values));
  const auto body = [=](tl::Context& tl) {
    const std::int64_t most = std::max<std::int64_t>(block_elements(tl) * kRoom / blocks, 1);
    map_part(tl, results, operands, most, function);
  };
  launch(name, results, operands, if_owns(function, body));
}

Tensor map_to(std::string_view name, const Shape& shape, DType dtype, const Placement& placement,
              const std::vector<Tensor>& operands, const BlockFunction& function) {
  if (Fusion* const fusion = fusion_of(operands.front()); fusion != nullptr && function.owns()) {
    return fusion->defer(name, shape, dtype, placement, operands, function);
  }
  Tensor result = make_like(operands.front(), name, shape, dtype, placement);
  map_into(result, name, operands, function);
  return result;
}

Tensor map(std::string_view name, const Placement& placement, const std::vector<Tensor>& operands,
           const BlockFunction& function) {
  const Tensor& first = operands.front();
  return map_to(name, first.shape(), first.dtype(), placement, operands, function);
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

void fill(const Tensor& target, const Scalar& value) {
  if (runtime::is_strided(target)) {
    const Tensor filled =
        make_like(target, "fill_", target.shape(), target.dtype(), placement_of(target));
    fill(filled, value);
    return write_view(target, filled);
  }
  launch("fill_", {target}, {}, [target, value](tl::Context& tl) {
    const LocalPart part = local_part(target, tl);
    const std::int64_t count = part.shape.numel();
    const std::int64_t most = std::min(block_elements(tl), count);
    const tl::Tensor block = tl.full({most}, value, target.dtype());
    for_each_block(count, most, [&](std::int64_t begin, std::int64_t size) {
      tl.store(part.data + begin, tl.narrow(block, 0, size));
    });
  });
}

Tensor make_copy(const Tensor& x) {
  if (runtime::is_strided(x)) return dense(x, "copy");
  return map("copy", placement_of(x), {x},
             [](tl::Context&, std::span<const tl::Tensor> of) { return of[0]; });
}

Tensor converted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return map_to("to", x.shape(), dtype, placement_of(x), {x},
                Owning([dtype](tl::Context& tl, std::span<const tl::Tensor> of) {
                  return tl.cast(of[0], dtype);
                }));
}

void copy_into(const Tensor& target, const Tensor& x) {
  map_into(target, "copy_", {x},
           Owning([dtype = target.dtype()](tl::Context& tl, std::span<const tl::Tensor> of) {
             return tl.cast(of[0], dtype);
           }));
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

}  // namespace kernbench::ops
