#include "runtime/parallel/fsdp_lanes.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/launch/kernel_launch.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/tl/tl.h"

namespace kernbench::distributed::fsdp {

namespace {

using ops::Placement;
using sim::PeLocation;

// The elements [begin, end) of a parameter, row by row.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

std::int64_t first_element(const ShardInfo& shard, const Shape& whole) {
  std::int64_t first = 0;
  for (std::size_t d = 0; d < whole.rank(); ++d) first = first * whole[d] + shard.offset[d];
  return first;
}

// Where a tensor's elements lie.  Those of a holder follow each other in the tensor, because PEs
// share rows alone.  On a level that is not cut each PE sees its own copy, or summand.
class Stretches {
 public:
  explicit Stretches(const Tensor& tensor)
      : tensor_(tensor), placement_(ops::placement_of(tensor)) {
    for (const ShardInfo& shard : tensor.shards()) {
      const PeLocation pe{shard.sip, shard.cube, shard.pe};
      if (pe != seen_from(pe, {shard.sip, 0, 0}) || shard.shape.numel() == 0) continue;
      const std::int64_t first = first_element(shard, tensor.shape());
      all_.push_back({{first, first + shard.shape.numel()}, pe});
    }
  }

  const Tensor& tensor() const { return tensor_; }

  // Calls visit(pointer, element, count) for what holders have of a range.
  template <class Visit>
  void for_each(const Range& range, const PeLocation& own, Visit visit) const {
    auto next = std::ranges::upper_bound(all_, range.begin, {},
                                         [](const Stretch& stretch) { return stretch.of.end; });
    for (; next != all_.end() && next->of.begin < range.end; ++next) {
      const std::int64_t begin = std::max(range.begin, next->of.begin);
      const std::int64_t end = std::min(range.end, next->of.end);
      visit(runtime::shard_pointer(tensor_, seen_from(next->pe, own)) + (begin - next->of.begin),
            begin, end - begin);
    }
  }

 private:
  struct Stretch {
    Range of;
    PeLocation pe;
  };

  PeLocation seen_from(PeLocation pe, const PeLocation& own) const {
    if (!placement_.cube.is_cut()) pe.cube = own.cube;
    if (!placement_.pe.is_cut()) pe.pe = own.pe;
    return pe;
  }

  Tensor tensor_;
  Placement placement_;
  std::vector<Stretch> all_;
};

std::vector<Stretches> stretches_of(const std::vector<Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

// The PEs that share a flat buffer's columns, by number.
class Lanes {
 public:
  explicit Lanes(const Tensor& flat) : flat_(ops::placement_of(flat)) {}

  std::int64_t lane_of(const PeLocation& pe) const {
    if (!flat_.pe.is_cut()) return pe.cube;
    return flat_.cube.is_cut() ? pe.cube * flat_.num_pes + pe.pe : pe.pe;
  }
  PeLocation pe_of(std::int64_t lane, PeLocation own) const {
    const std::int64_t pes = flat_.pe.is_cut() ? flat_.num_pes : 1;
    if (flat_.pe.is_cut()) own.pe = static_cast<int>(lane % pes);
    if (flat_.cube.is_cut()) own.cube = static_cast<int>(lane / pes);
    return own;
  }
  // True if this PE's elements of a tensor count, beside other PEs' summands.
  bool has_summand(const Tensor& tensor, const PeLocation& pe) const {
    const Placement of_tensor = ops::placement_of(tensor);
    return counts(flat_.cube, of_tensor.cube, pe.cube) && counts(flat_.pe, of_tensor.pe, pe.pe);
  }

 private:
  Placement flat_;
};

// A lane's share of the rows that a rank has of a parameter, padding among them.
Range share_of(const FlatRows& rows, std::int64_t rank, std::int64_t lane) {
  const std::int64_t all = rows.padded_elements();
  const std::int64_t first = rank * all;
  return {first + std::min(lane * rows.share(), all),
          first + std::min((lane + 1) * rows.share(), all)};
}

void copy_stretch(tl::Context& tl, const tl::Pointer& from, const tl::Pointer& to,
                  std::int64_t count, double factor = 1) {
  ops::for_each_block(count, ops::block_elements(tl), [&](std::int64_t begin, std::int64_t size) {
    tl::Tensor data = tl.load(from + begin, {size}, from.dtype());
    if (factor != 1) data = tl.cast(data, DType::f32) * factor;
    tl.store(to + begin, tl.cast(data, to.dtype()));
  });
}

void clear_stretch(tl::Context& tl, const tl::Pointer& to, std::int64_t count) {
  ops::for_each_block(count, ops::block_elements(tl), [&](std::int64_t begin, std::int64_t size) {
    tl.store(to + begin, tl.zeros({size}, to.dtype()));
  });
}

// Copies a PE's elements of a parameter from the lanes of all ranks.
void assemble(tl::Context& tl, const Tensor& flat, const Lanes& lanes, const FlatRows& rows,
              const Range& own, const tl::Pointer& to) {
  const std::int64_t row = ops::local_part(flat, tl).columns;  // of each lane
  for (std::int64_t at = own.begin; at < own.end;) {
    const std::int64_t rank = at / rows.padded_elements();
    const std::int64_t lane = at % rows.padded_elements() / rows.share();
    const Range share = share_of(rows, rank, lane);
    const std::int64_t end = std::min(own.end, share.end);
    const tl::Pointer from = runtime::shard_pointer(flat, lanes.pe_of(lane, tl.location())) +
                             (rank * row + rows.offset + at - share.begin);
    copy_stretch(tl, from, to + (at - own.begin), end - at);
    at = end;
  }
}

}  // namespace

bool is_shared(const Tensor& tensor) {
  const Placement placement = ops::placement_of(tensor);
  return placement.cube.is_cut() || placement.pe.is_cut();
}

void copy_in_to_lanes(std::string_view name, const Tensor& flat, const std::vector<Tensor>& tensors,
                      const std::vector<FlatRows>& layout, const RankRange& ranks, double factor) {
  ops::launch(name, {flat}, tensors,
              [flat, sources = stretches_of(tensors), layout, ranks, factor,
               lanes = Lanes(flat)](tl::Context& tl) {
                const ops::LocalPart part = ops::local_part(flat, tl);
                const std::int64_t lane = lanes.lane_of(tl.location());
                for (std::size_t i = 0; i < sources.size(); ++i) {
                  const Tensor& tensor = sources[i].tensor();
                  const bool counts = lanes.has_summand(tensor, tl.location());
                  for (int r = 0; r < ranks.count; ++r) {
                    Range own = share_of(layout[i], ranks.first + r, lane);
                    own.end = counts ? std::min(own.end, tensor.numel()) : own.begin;
                    const tl::Pointer to = part.data + (r * part.columns + layout[i].offset);
                    sources[i].for_each(
                        own, tl.location(),
                        [&](const tl::Pointer& from, std::int64_t at, std::int64_t count) {
                          copy_stretch(tl, from, to + (at - own.begin), count, factor);
                        });
                    const auto copied = std::max<std::int64_t>(own.end - own.begin, 0);
                    clear_stretch(tl, to + copied, layout[i].share() - copied);
                  }
                }
              });
}

void copy_out_of_lanes(std::string_view name, const Tensor& flat,
                       const std::vector<Tensor>& tensors, const std::vector<FlatRows>& layout) {
  ops::launch(name, tensors, {flat}, [flat, tensors, layout, lanes = Lanes(flat)](tl::Context& tl) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ShardInfo& shard = ops::shard_at(tensors[i], tl.location());
      const std::int64_t first = first_element(shard, tensors[i].shape());
      assemble(tl, flat, lanes, layout[i], {first, first + shard.shape.numel()},
               ops::local_part(tensors[i], tl).data);
    }
  });
}

}  // namespace kernbench::distributed::fsdp
