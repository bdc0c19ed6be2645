#include <fmt/format.h>

#include <optional>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/fusion.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::nn::functional {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::Level;
using ops::LocalPart;

// A range of one dimension.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// The number of a table's first row, and the type in which those of all rows are compared.
struct RowNumbers {
  std::int64_t first = 0;
  DType dtype = DType::f32;
};

// A PE's parts of the indices, of the table, and of the looked-up rows.
struct Parts {
  LocalPart indices;
  LocalPart table;
  LocalPart rows;
  RowNumbers numbers;  // of its part of the table

  std::int64_t index_count() const { return indices.rows * indices.columns; }

  // Loads indices as [size, 1] or, with `are_columns`, as [1, size].
  tl::Tensor load_indices(tl::Context& tl, const Stretch& stretch, bool are_columns) const {
    const Shape shape = are_columns ? Shape{1, stretch.size} : Shape{stretch.size, 1};
    return tl.cast(tl.load(indices.data + stretch.begin, shape, indices.data.dtype()),
                   numbers.dtype);
  }
  tl::Tensor make_numbers(tl::Context& tl, const Stretch& of_table, const Shape& shape) const {
    const std::int64_t first = numbers.first + of_table.begin;
    return tl.reshape(tl.arange(first, first + of_table.size, numbers.dtype), shape);
  }
  tl::Tensor load(tl::Context& tl, const LocalPart& from, const Stretch& rows_of,
                  const Stretch& columns) const {
    return tl.load(from.data + rows_of.begin * from.columns + columns.begin,
                   {rows_of.size, columns.size}, from.data.dtype(), from.columns);
  }
};

Parts find_parts(tl::Context& tl, const Tensor& indices, const Tensor& table, const Tensor& rows,
                 const RowNumbers& numbers) {
  Parts parts{ops::local_part(indices, tl), ops::local_part(table, tl), ops::local_part(rows, tl),
              numbers};
  parts.numbers.first += parts.table.offset[0];
  return parts;
}

// Multiplies a matrix of ones and zeros [m, k] with [k, n], summed over k in tiles.
template <class Ones, class Values, class Store>
void multiply(tl::Context& tl, const sim::GemmSize& size, const sim::GemmSize& tile, DType dtype,
              Ones ones, Values values, Store store) {
  ops::for_each_block(size.m, tile.m, [&](std::int64_t row, std::int64_t height) {
    ops::for_each_block(size.n, tile.n, [&](std::int64_t column, std::int64_t width) {
      tl::Tensor sum = tl.zeros({height, width}, DType::f32);
      ops::for_each_block(size.k, tile.k, [&](std::int64_t k, std::int64_t depth) {
        const tl::Tensor mask = tl.cast(ones({row, height}, {k, depth}), dtype);
        sum = tl.dot(mask, values({k, depth}, {column, width}), std::move(sum));
      });
      store(Stretch{row, height}, Stretch{column, width}, tl.cast(sum, dtype));
    });
  });
}

// Leaves room for the ones and zeros, in the type of the numbers, beside the tiles of a product.
sim::GemmSize choose_tile(tl::Context& tl, const Parts& parts, const sim::GemmSize& size) {
  const Bytes scratch = tl.run().pe().scratch_capacity() / (3 * size_of(parts.numbers.dtype));
  return tl.choose_tile(parts.table.data, parts.table.data, parts.rows.data, size, scratch);
}

void look_up(const Tensor& rows, const Tensor& indices, const Tensor& table,
             const RowNumbers& numbers) {
  ops::launch("embedding", {rows}, {indices, table}, [=](tl::Context& tl) {
    const Parts parts = find_parts(tl, indices, table, rows, numbers);
    const sim::GemmSize size{parts.index_count(), parts.table.columns, parts.table.rows};
    multiply(
        tl, size, choose_tile(tl, parts, size), table.dtype(),
        [&](const Stretch& of_rows, const Stretch& of_table) {
          return parts.load_indices(tl, of_rows, false) ==
                 parts.make_numbers(tl, of_table, {1, of_table.size});
        },
        [&](const Stretch& of_table, const Stretch& columns) {
          return parts.load(tl, parts.table, of_table, columns);
        },
        [&](const Stretch& of_rows, const Stretch& columns, const tl::Tensor& block) {
          tl.store(parts.rows.data + of_rows.begin * size.n + columns.begin, block, size.n);
        });
  });
}

// Adds to each row of the table the gradients of the results that were looked up there.
void add_up(const Tensor& gradient, const Tensor& indices, const Tensor& dy,
            const RowNumbers& numbers) {
  ops::launch("embedding_backward", {gradient}, {indices, dy}, [=](tl::Context& tl) {
    const Parts parts = find_parts(tl, indices, gradient, dy, numbers);
    const sim::GemmSize size{parts.table.rows, parts.table.columns, parts.index_count()};
    multiply(
        tl, size, choose_tile(tl, parts, size), dy.dtype(),
        [&](const Stretch& of_table, const Stretch& of_rows) {
          return parts.make_numbers(tl, of_table, {of_table.size, 1}) ==
                 parts.load_indices(tl, of_rows, true);
        },
        [&](const Stretch& of_rows, const Stretch& columns) {
          return parts.load(tl, parts.rows, of_rows, columns);
        },
        [&](const Stretch& of_table, const Stretch& columns, const tl::Tensor& block) {
          tl.store(parts.table.data + of_table.begin * size.n + columns.begin, block, size.n);
        });
  });
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

// The gradient of the table is placed as the table, or each holder has a summand from its own
// indices.
ops::Placement placement_of_gradient(const Tensor& dy, const Tensor& table) {
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
  const auto placement = ops::by_level(
      ops::placement_of(indices), ops::placement_of(table),
      [&](const Level& a, const Level& b) { return level_of_rows(a, b, shape.rank()); });
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
