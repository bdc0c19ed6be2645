#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/functional/spread_matrix.h"
#include "runtime/ops/fusion.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::nn::functional {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::Level;
using ops::LocalPart;

// The number of a table's first row, and the type in which those of all rows are compared.
struct RowNumbers {
  std::int64_t first = 0;
  DType dtype = DType::f32;
};

// A matrix whose rows PEs find where they lie, seen by one of them.
class FoundRows {
 public:
  // The rows of a shared table, and what belongs to them, may lie on other PEs.
  FoundRows(std::string_view name, const Tensor& matrix, bool is_spread) : matrix_(matrix) {
    if (is_spread) spread_.emplace(name, matrix);
    rows_ = matrix.numel() == 0 ? 0 : matrix.numel() / matrix.size(-1);
  }

  tl::RowsInBlocks seen_by(tl::Context& tl) const {
    const LocalPart own = ops::local_part(matrix_, tl);
    if (!spread_) return {{{0, own.data}}, own.rows, own.columns};
    return {spread_->rows_for(tl.location(), 0, rows_, 0).blocks, rows_, own.columns};
  }

 private:
  Tensor matrix_;
  std::optional<ops::SpreadMatrix> spread_;
  std::int64_t rows_ = 0;
};

// The rows [first, first + count) of a matrix in blocks.
tl::RowsInBlocks narrow(const tl::RowsInBlocks& of, std::int64_t first, std::int64_t count) {
  tl::RowsInBlocks part{{}, count, of.columns};
  of.for_each([&](const tl::Pointer& pointer, std::int64_t row, std::int64_t rows) {
    if (row + rows <= first || row >= first + count) return;
    const std::int64_t begin = std::max(row, first);
    part.blocks.push_back({begin - first, pointer + (begin - row) * of.columns});
  });
  return part;
}

// Loads indices that may lie in several blocks: [count].
tl::Tensor load_indices(tl::Context& tl, const tl::RowsInBlocks& of) {
  std::vector<tl::Tensor> parts;
  const tl::LoadOptions options{.is_shared = of.blocks.size() > 1};
  of.for_each([&](const tl::Pointer& pointer, std::int64_t, std::int64_t count) {
    const tl::Tensor part = tl.load(pointer, {1, count}, pointer.dtype(), count, options);
    parts.push_back(tl.reshape(part, {count}));
  });
  return tl.cat(parts);
}

// As many rows as fit into so many blocks of f32 (ops::block_elements()).
std::int64_t rows_in_blocks(const tl::Context& tl, std::int64_t blocks, std::int64_t columns) {
  return std::max<std::int64_t>(
      blocks * ops::block_elements(tl) / std::max<std::int64_t>(columns, 1), 1);
}

// The rows of a block of a PE's `rows`, which come from `sources`: no more than a quarter of them,
// so that PEs load rows while others, whose rows came earlier, store theirs.  Where that would take
// more loads, or loads so small that they are mostly latency, a block has as many as fit.
std::int64_t rows_of_block(const tl::Context& tl, std::int64_t rows, std::int64_t columns,
                           const tl::RowsInBlocks& sources, DType dtype) {
  constexpr Bytes kLeastBytes = 4096;
  const std::int64_t most = rows_in_blocks(tl, 8, columns);
  const std::int64_t quarter = sim::ceil_divide(rows, 4);
  const bool is_small = quarter * columns * size_of(dtype) < kLeastBytes;
  if (is_small || rows > std::ssize(sources.blocks)) return most;
  return std::clamp<std::int64_t>(quarter, 1, most);
}

void look_up(const Tensor& rows, const Tensor& indices, const Tensor& table,
             const RowNumbers& numbers) {
  const bool is_shared = ops::placement_of(table).is_shared;
  ops::launch("embedding", {rows}, {indices, table},
              [rows, indices, numbers,
               table = std::make_shared<const FoundRows>("embedding", table, is_shared),
               offset_of = is_shared ? Tensor() : table](tl::Context& tl) {
                const LocalPart ids = ops::local_part(indices, tl);
                const LocalPart into = ops::local_part(rows, tl);
                const tl::RowsInBlocks found = table->seen_by(tl);
                const std::int64_t offset =
                    offset_of.defined() ? ops::local_part(offset_of, tl).offset[0] : 0;
                const std::int64_t all = ids.rows * ids.columns;
                ops::for_each_block(
                    all, rows_of_block(tl, all, into.columns, found, into.data.dtype()),
                    [&](std::int64_t begin, std::int64_t count) {
                      const tl::Tensor block = tl.load(ids.data + begin, {count}, ids.data.dtype());
                      tl.store(into.data + begin * into.columns,
                               found.blocks.empty()
                                   ? tl.zeros({count, into.columns}, into.data.dtype())
                                   : tl.index_select(found, block, numbers.first + offset));
                    });
              });
}

// The indices and gradients of a table's rows, of which those of a shared one are everybody's.
struct Gathered {
  FoundRows indices;
  FoundRows dy;
};

// The gradients of a table's rows that one PE adds up.
class GradientRows {
 public:
  GradientRows(tl::Context& tl, const Gathered& from, std::int64_t table_rows)
      : tl_(tl), indices_(from.indices.seen_by(tl)), dy_(from.dy.seen_by(tl)), all_(table_rows) {
    // They are loaded once for all rows where they fit into scratch.
    if (dy_.count > 0 && dy_.count <= most_indices()) kept_ = load_indices(tl_, indices_);
  }

  const tl::RowsInBlocks& sources() const { return dy_; }

  // The sum for each of the table's rows [first, first + rows), in f32; undefined if there is none.
  std::optional<tl::Tensor> sum(std::int64_t first, std::int64_t rows) const {
    const std::int64_t most = rows_in_blocks(tl_, 4, dy_.columns);
    // Fixed tiles add up the rows of a part of a table in the order of the whole.
    const bool are_fixed = tl_.run().pe().services().has_fixed_tiles;
    std::optional<tl::Tensor> sum;
    ops::for_each_block(
        dy_.count,
        std::clamp<std::int64_t>(are_fixed ? most : most * all_ / rows, 1, most_indices()),
        [&](std::int64_t begin, std::int64_t count) {
          const tl::Tensor indices = kept_ ? tl_.narrow(*kept_, begin, count)
                                           : load_indices(tl_, narrow(indices_, begin, count));
          const tl::Tensor added = tl_.index_add(narrow(dy_, begin, count), indices, first, rows,
                                                 sim::ceil_divide(count * rows, all_));
          sum = sum ? *sum + added : added;
        });
    return sum;
  }

 private:
  // At a time.
  std::int64_t most_indices() const {
    return std::min<std::int64_t>(16384, 4 * ops::block_elements(tl_));
  }

  tl::Context& tl_;
  tl::RowsInBlocks indices_;
  tl::RowsInBlocks dy_;
  std::int64_t all_;
  std::optional<tl::Tensor> kept_;
};

// Adds to each row of the table the gradients of the results that were looked up there.
void add_rows(tl::Context& tl, const Tensor& gradient, const Gathered& from,
              const RowNumbers& numbers) {
  const LocalPart into = ops::local_part(gradient, tl);
  const GradientRows gradients(tl, from, gradient.size(0));
  ops::for_each_block(
      into.rows, rows_of_block(tl, into.rows, into.columns, gradients.sources(), gradient.dtype()),
      [&](std::int64_t row, std::int64_t rows) {
        const auto sum = gradients.sum(numbers.first + into.offset[0] + row, rows);
        tl.store(into.data + row * into.columns,
                 sum ? tl.cast(*sum, gradient.dtype())
                     : tl.zeros({rows, into.columns}, gradient.dtype()));
      });
}

void add_up(const Tensor& gradient, const Tensor& indices, const Tensor& dy,
            const RowNumbers& numbers) {
  constexpr std::string_view name = "embedding_backward";
  const bool is_shared = ops::placement_of(gradient).is_shared;
  const Tensor column = reshape(indices.detach(), {indices.numel(), 1});
  const auto from =
      std::make_shared<const Gathered>(Gathered{{name, column, is_shared}, {name, dy, is_shared}});
  ops::launch(name, {gradient}, {indices, dy},
              [=](tl::Context& tl) { add_rows(tl, gradient, *from, numbers); });
}

std::optional<Level> level_of_rows(const Level& indices, const Level& table, std::size_t rank) {
  if (indices.is_partial() || table.is_partial()) return std::nullopt;
  if (table.is_replicate()) {
    const bool fits = indices.is_replicate() || indices.dimension == 0;
    return fits ? std::optional(indices) : std::nullopt;
  }
  if (!indices.is_replicate()) return std::nullopt;
  return table.dimension == 0 ? ops::kPartial : ops::cut(rank - 1);
}

// A shared table serves indices wherever they lie.
std::optional<ops::Placement> placement_of_rows(const Tensor& indices, const Tensor& table) {
  const ops::Placement of_indices = ops::placement_of(indices);
  const ops::Placement of_table = ops::placement_of(table);
  const auto rule = [rank = static_cast<std::size_t>(indices.dim()) + 1](
                        const Level& a, const Level& b) { return level_of_rows(a, b, rank); };
  if (!of_table.is_shared) return ops::by_level(of_indices, of_table, rule);
  return ops::by_level(of_indices, [&](const Level& a) { return rule(a, ops::kReplicate); });
}

// The gradient of the table is placed as the table, or each holder has a summand from its own
// indices.
ops::Placement placement_of_gradient(const Tensor& dy, const Tensor& table) {
  if (ops::placement_of(table).is_shared) ops::check_is_whole("embedding_backward", dy);
  const auto rule = [](const Level& of_dy, const Level& of_table) -> std::optional<Level> {
    if (of_table.is_cut()) return of_table;
    return of_dy.is_replicate() ? ops::kReplicate : ops::kPartial;
  };
  return *ops::by_level(ops::placement_of(dy), ops::placement_of(table), rule);
}

Shape with_rows(const Shape& shape, std::int64_t width) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes.push_back(width);
  return Shape(sizes);
}

// True if a kernel of whole rows can keep the table in scratch, and ones and zeros for each of its
// rows beside a block.
bool fits_beside_rows(const Tensor& table) {
  const Bytes scratch = table.storage()->simulation->machine().topology().pe.tcm.capacity;
  const ops::Placement placement = ops::placement_of(table);
  const bool is_whole = placement.cube.is_replicate() && placement.pe.is_replicate();
  return is_whole && table.numel() * size_of(table.dtype()) <= scratch / 16 &&
         table.shape()[0] > 0 && table.shape()[0] <= 4 * table.shape()[1];
}

// Multiplies ones and zeros with the whole table.
ops::RowFunction rows_of_table(const RowNumbers& numbers, DType dtype) {
  return ops::Owning([=](tl::Context& tl, std::span<const tl::Tensor> of, const ops::RowBlock&) {
    const std::int64_t rows = of[1].shape()[0];
    const tl::Tensor all = tl.arange(numbers.first, numbers.first + rows, numbers.dtype);
    const tl::Tensor ones = tl.cast(of[0], numbers.dtype) == tl.reshape(all, {1, rows});
    tl::Tensor sum = tl.zeros({of[0].shape()[0], of[1].shape()[1]}, DType::f32);
    return tl.cast(tl.dot(tl.cast(ones, dtype), of[1], std::move(sum)), dtype);
  });
}

Tensor looked_up(const Tensor& indices, const Tensor& table, const RowNumbers& numbers,
                 const Shape& shape, const ops::Placement& placement) {
  const ops::Fusion* const fusion = ops::fusion_of(table);
  if (fusion != nullptr && fits_beside_rows(table) &&
      ops::may_defer_rows(*table.storage()->simulation, shape, placement)) {
    return fusion->defer(
        {"embedding",
         {shape, ops::Along::rows},
         shape,
         table.dtype(),
         placement,
         {reshape(indices.detach(), with_rows(indices.shape(), 1)), table.detach()},
         rows_of_table(numbers, table.dtype()),
         1});
  }
  Tensor rows = ops::make_like(table, "embedding", shape, table.dtype(), placement);
  look_up(rows, indices, table, numbers);
  return rows;
}

}  // namespace

Tensor embedding(const Tensor& of, const Tensor& of_table, const EmbeddingOptions& options) {
  const Tensor indices = contiguous(of);
  const Tensor table = contiguous(of_table);
  ops::check_holders("embedding", {indices, table});
  if (table.shape().rank() != 2) {
    ops::refuse_shapes("embedding", fmt::format("'weight' must be 2-D: '{}' is {}", table.name(),
                                                to_string(table.shape())));
  }
  ops::check_is_floating("embedding", table);
  const bool are_indices = is_integral(indices.dtype()) && indices.dtype() != DType::boolean;
  if (indices.dtype() != DType::f32 && !are_indices) {
    throw DeviceError("KB-F002",
                      "embedding: argument 1, {}; indices must be i64, i32 or f32, which has all "
                      "whole numbers up to 2^24: make '{}' with {{.dtype = {}}}",
                      runtime::describe(indices), indices.name(), runtime::words_for(DType::i64));
  }
  const Shape shape = with_rows(indices.shape(), table.shape()[1]);
  const auto placement = placement_of_rows(indices, table);
  if (!placement) {
    ops::refuse_placements("embedding", indices, table,
                           "on each level either the first dimension of the indices or the table "
                           "may be cut");
  }
  const std::int64_t first_index = options.first_index.value_or(0);
  const RowNumbers numbers{first_index,
                           type_of_ids("embedding", indices, first_index + table.shape()[0])};
  if (!options.first_index) check_ids("embedding", indices, table);
  Tensor rows = looked_up(indices, table, numbers, shape, *placement);
  if (!needs_grad(table)) return rows;
  const auto backward = [indices = SavedTensor(indices), table = table.detach(),
                         numbers](const Tensor& dy) {
    Tensor gradient = ops::make_like(table, "weight.grad", table.shape(), table.dtype(),
                                     placement_of_gradient(dy, table));
    add_up(gradient, indices.get(), dy, numbers);
    return std::vector{Tensor(), gradient};
  };
  return autograd::record("embedding", std::move(rows), {indices, table}, backward);
}

}  // namespace kernbench::nn::functional
