#include "runtime/parallel/fsdp_copies.h"

#include <algorithm>

#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/tl/tl.h"

namespace kernbench::distributed::fsdp {

namespace {

using ops::Level;

void copy(tl::Context& tl, const tl::Pointer& from, const tl::Pointer& to, std::int64_t count,
          double factor = 1) {
  ops::for_each_block(count, ops::block_elements(tl), [&](std::int64_t begin, std::int64_t size) {
    tl::Tensor block = tl.load(from + begin, {size}, from.dtype());
    if (factor != 1) block = tl.cast(block, DType::f32) * factor;
    tl.store(to + begin, tl.cast(block, to.dtype()));
  });
}

void clear(tl::Context& tl, const tl::Pointer& to, std::int64_t count) {
  ops::for_each_block(count, ops::block_elements(tl), [&](std::int64_t begin, std::int64_t size) {
    tl.store(to + begin, tl.zeros({size}, to.dtype()));
  });
}

// True if this holder's elements count, beside others' summands.
bool counts(const Level& flat, const Level& of_tensor, int holder) {
  return !flat.is_partial() || of_tensor.is_partial() || holder == 0;
}

}  // namespace

std::int64_t FlatRows::rows_of(int rank) const {
  return std::clamp<std::int64_t>(rows - rank * padded_rows, 0, padded_rows);
}

std::int64_t set_offsets(std::vector<FlatRows>& layout) {
  std::int64_t end = 0;
  for (FlatRows& rows : layout) {
    rows.offset = end;
    end += rows.padded_elements();
  }
  return end;
}

void copy_in_shards(const Tensor& part, const std::vector<Tensor>& shards,
                    const std::vector<FlatRows>& layout) {
  ops::launch("all_gather_copy_in", {part}, shards, [part, shards, layout](tl::Context& tl) {
    const tl::Pointer to = ops::local_part(part, tl).data;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      copy(tl, ops::local_part(shards[i], tl).data, to + layout[i].offset,
           layout[i].padded_elements());
    }
  });
}

void copy_out(const Tensor& flat, const std::vector<Tensor>& parameters,
              const std::vector<FlatRows>& layout, int ranks) {
  const std::int64_t part = flat.numel() / ranks;
  ops::launch("all_gather_copy_out", parameters, {flat},
              [flat, parameters, layout, ranks, part](tl::Context& tl) {
                const tl::Pointer from = ops::local_part(flat, tl).data;
                for (std::size_t i = 0; i < parameters.size(); ++i) {
                  const tl::Pointer to = ops::local_part(parameters[i], tl).data;
                  const FlatRows& rows = layout[i];
                  for (int rank = 0; rank < ranks && rows.rows_of(rank) > 0; ++rank) {
                    copy(tl, from + (rank * part + rows.offset), to + rank * rows.padded_elements(),
                         rows.rows_of(rank) * rows.row_elements);
                  }
                }
              });
}

void copy_in_gradients(const Tensor& flat, const std::vector<Tensor>& gradients,
                       const std::vector<FlatRows>& layout, int ranks, double factor) {
  const std::int64_t part = flat.numel() / ranks;
  ops::launch("reduce_scatter_copy_in", {flat}, gradients,
              [flat, gradients, layout, ranks, factor, part](tl::Context& tl) {
                const ops::Placement whole = ops::placement_of(flat);
                for (std::size_t i = 0; i < gradients.size(); ++i) {
                  const ops::Placement own = ops::placement_of(gradients[i]);
                  const bool has_summand = counts(whole.cube, own.cube, tl.location().cube) &&
                                           counts(whole.pe, own.pe, tl.location().pe);
                  const tl::Pointer from = ops::local_part(gradients[i], tl).data;
                  const tl::Pointer to = ops::local_part(flat, tl).data + layout[i].offset;
                  for (int rank = 0; rank < ranks; ++rank) {
                    const std::int64_t rows = has_summand ? layout[i].rows_of(rank) : 0;
                    const std::int64_t count = rows * layout[i].row_elements;
                    const std::int64_t first = rank * layout[i].padded_elements();
                    copy(tl, from + first, to + rank * part, count, factor);
                    clear(tl, to + (rank * part + count), layout[i].padded_elements() - count);
                  }
                }
              });
}

}  // namespace kernbench::distributed::fsdp
