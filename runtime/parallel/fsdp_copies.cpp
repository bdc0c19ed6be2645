#include "runtime/parallel/fsdp_copies.h"

#include <algorithm>

#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/fsdp_lanes.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/tl/tl.h"

namespace kernbench::distributed::fsdp {

namespace {

using ops::Level;

// Rows of a matrix that begin `pitch` elements after each other.
struct Rows {
  tl::Pointer first;
  std::int64_t pitch = 0;

  tl::Pointer at(const ops::MatrixBlock& block) const {
    return first + (block.row * pitch + block.column);
  }
};

// A parameter's rows of many ranks are one matrix, so that a kernel has few commands however many
// ranks there are.
void copy(tl::Context& tl, const Rows& from, const Rows& to, std::int64_t rows,
          std::int64_t columns, double factor = 1) {
  ops::for_each_matrix_block(tl, rows, columns, [&](const ops::MatrixBlock& block) {
    tl::Tensor data =
        tl.load(from.at(block), {block.height, block.width}, from.first.dtype(), from.pitch);
    if (factor != 1) data = tl.cast(data, DType::f32) * factor;
    tl.store(to.at(block), tl.cast(data, to.first.dtype()), to.pitch);
  });
}

void clear(tl::Context& tl, const Rows& to, std::int64_t rows, std::int64_t columns) {
  ops::for_each_matrix_block(tl, rows, columns, [&](const ops::MatrixBlock& block) {
    tl.store(to.at(block), tl.zeros({block.height, block.width}, to.first.dtype()), to.pitch);
  });
}

}  // namespace

Tensor make_flat(const Tensor& like, std::string_view name, int parts, std::int64_t part,
                 DType dtype, const std::vector<Tensor>& gradients) {
  ops::Placement placement = ops::placement_of(like);
  placement.is_shared = false;
  for (Level ops::Placement::*const level : {&ops::Placement::cube, &ops::Placement::pe}) {
    const bool is_partial = std::ranges::any_of(gradients, [&](const Tensor& gradient) {
      return (ops::placement_of(gradient).*level).is_partial();
    });
    placement.*level = (placement.*level).is_cut() ? ops::cut(1)
                       : is_partial                ? ops::kPartial
                                                   : ops::kReplicate;
  }
  const Shape shape = is_shared(like) ? Shape{parts, part} : Shape{parts * part};
  const Tensor flat = ops::make_like(like, name, shape, dtype, placement);
  runtime::mark_memory(flat, MemoryKind::communication);
  return flat;
}

Tensor part_of(const Tensor& flat, int index, std::int64_t part) {
  return flat.dim() == 2 ? runtime::make_stretch_view(flat, 0, index, 1)
                         : runtime::make_stretch_view(flat, 0, index * part, part);
}

bool counts(const Level& flat, const Level& of_tensor, int holder) {
  return !flat.is_partial() || of_tensor.is_partial() || holder == 0;
}

std::int64_t FlatRows::count_rows(int rank) const {
  return std::clamp<std::int64_t>(rows - rank * padded_rows, 0, padded_rows);
}

std::int64_t set_offsets(std::vector<FlatRows>& layout) {
  std::int64_t end = 0;
  for (FlatRows& rows : layout) {
    rows.offset = end;
    end += rows.share();
  }
  return layout.empty() ? 0 : end * layout.front().lanes;
}

void copy_in_shards(const Tensor& part, const std::vector<Tensor>& shards,
                    const std::vector<FlatRows>& layout) {
  if (is_shared(part)) return copy_in_to_lanes("all_gather_copy_in", part, shards, layout, {});
  ops::launch("all_gather_copy_in", {part}, shards, [part, shards, layout](tl::Context& tl) {
    const tl::Pointer to = ops::local_part(part, tl).data;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::int64_t count = layout[i].padded_elements();
      copy(tl, {ops::local_part(shards[i], tl).data, count}, {to + layout[i].offset, count}, 1,
           count);
    }
  });
}

void copy_in_rows(const Tensor& part, const std::vector<Tensor>& parameters,
                  const std::vector<FlatRows>& layout, int rank) {
  if (is_shared(part)) return copy_in_to_lanes("reshard", part, parameters, layout, {rank, 1});
  ops::launch("reshard", {part}, parameters, [part, parameters, layout, rank](tl::Context& tl) {
    const tl::Pointer to = ops::local_part(part, tl).data;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const FlatRows& rows = layout[i];
      const tl::Pointer from = ops::local_part(parameters[i], tl).data;
      const std::int64_t each = rows.padded_elements();
      const std::int64_t count = rows.count_rows(rank) * rows.row_elements;
      copy(tl, {from + rank * each, each}, {to + rows.offset, each}, 1, count);
      clear(tl, {to + (rows.offset + count), each}, 1, each - count);
    }
  });
}

void copy_out(const Tensor& flat, const std::vector<Tensor>& parameters,
              const std::vector<FlatRows>& layout, int ranks) {
  if (is_shared(flat)) return copy_out_of_lanes("all_gather_copy_out", flat, parameters, layout);
  const std::int64_t part = flat.numel() / ranks;
  ops::launch("all_gather_copy_out", parameters, {flat},
              [flat, parameters, layout, part](tl::Context& tl) {
                const tl::Pointer from = ops::local_part(flat, tl).data;
                for (std::size_t i = 0; i < parameters.size(); ++i) {
                  const tl::Pointer to = ops::local_part(parameters[i], tl).data;
                  const FlatRows& rows = layout[i];
                  const std::int64_t each = rows.padded_elements();
                  const std::int64_t full = rows.full_ranks();
                  const tl::Pointer first = from + rows.offset;
                  // Ranks with a full number of rows are the rows of one matrix, and the last rank
                  // with elements is copied by itself.
                  copy(tl, {first, part}, {to, each}, full, each);
                  copy(tl, {first + full * part, part}, {to + full * each, each}, 1,
                       rows.elements() - full * each);
                }
              });
}

void copy_out_gradients(const Tensor& part, const std::vector<Tensor>& gradients,
                        const std::vector<FlatRows>& layout) {
  copy_out_of_lanes("reduce_scatter_copy_out", part, gradients, layout);
}

void copy_in_gradients(const Tensor& flat, const std::vector<Tensor>& gradients,
                       const std::vector<FlatRows>& layout, int ranks, double factor) {
  if (is_shared(flat)) {
    return copy_in_to_lanes("reduce_scatter_copy_in", flat, gradients, layout, {0, ranks}, factor);
  }
  const std::int64_t part = flat.numel() / ranks;
  ops::launch("reduce_scatter_copy_in", {flat}, gradients,
              [flat, gradients, layout, ranks, factor, part](tl::Context& tl) {
                const ops::Placement whole = ops::placement_of(flat);
                for (std::size_t i = 0; i < gradients.size(); ++i) {
                  const ops::Placement own = ops::placement_of(gradients[i]);
                  // The flat buffer is partial if any gradient is.  A replicated gradient then
                  // counts on the first holder, and the others contribute 0.
                  const bool has_summand = counts(whole.cube, own.cube, tl.location().cube) &&
                                           counts(whole.pe, own.pe, tl.location().pe);
                  const FlatRows& rows = layout[i];
                  const tl::Pointer from = ops::local_part(gradients[i], tl).data;
                  const tl::Pointer to = ops::local_part(flat, tl).data + rows.offset;
                  const std::int64_t each = rows.padded_elements();
                  const std::int64_t full = has_summand ? rows.full_ranks() : 0;
                  const std::int64_t rest = has_summand ? rows.elements() - full * each : 0;
                  copy(tl, {from, each}, {to, part}, full, each, factor);
                  copy(tl, {from + full * each, each}, {to + full * part, part}, 1, rest, factor);
                  const std::int64_t begun = rest > 0 ? 1 : 0;
                  clear(tl, {to + (full * part + rest), part}, begun, each - rest);
                  clear(tl, {to + (full + begun) * part, part}, ranks - full - begun, each);
                }
              });
}

}  // namespace kernbench::distributed::fsdp
