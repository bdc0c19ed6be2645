#include "runtime/parallel/flat_buffer.h"

#include <algorithm>
#include <iterator>

#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/tl/tl.h"

namespace kernbench::nn::parallel {

namespace {

using ops::Level;
using ops::Placement;

bool cut_alike(const Level& a, const Level& b) {
  return a.is_cut() == b.is_cut();
}

bool can_share(const Tensor& a, const Tensor& b) {
  const Placement of_a = ops::placement_of(a);
  const Placement of_b = ops::placement_of(b);
  return a.dtype() == b.dtype() && of_a.has_holders_of(of_b) && cut_alike(of_a.cube, of_b.cube) &&
         cut_alike(of_a.pe, of_b.pe);
}

// The level of a flat tensor, for the tensors' levels.
Level flat_level(const Level& so_far, const Level& next) {
  if (next.is_cut()) return ops::cut(0);
  return so_far.is_partial() || next.is_partial() ? ops::kPartial : so_far;
}

std::int64_t longest_part(const Tensor& tensor) {
  std::int64_t most = 0;
  for (const ShardInfo& shard : tensor.shards()) most = std::max(most, shard.shape.numel());
  return most;
}

std::int64_t round_up(std::int64_t length, std::int64_t multiple) {
  return (length + multiple - 1) / multiple * multiple;
}

// True if this holder's elements count, beside others' summands.
bool counts(const Level& flat, const Level& of_tensor, int holder) {
  return !flat.is_partial() || of_tensor.is_partial() || holder == 0;
}
bool has_summand(const Placement& flat, const Placement& of_tensor, const sim::PeLocation& holder) {
  return counts(flat.cube, of_tensor.cube, holder.cube) && counts(flat.pe, of_tensor.pe, holder.pe);
}

void store(tl::Context& tl, const tl::Pointer& to, const tl::Tensor& elements) {
  tl.store(to, tl.cast(elements, to.dtype()));
}

void copy_part(tl::Context& tl, const ops::LocalPart& from, const tl::Pointer& to, double factor) {
  ops::for_each_block(from.shape.numel(), ops::block_elements(tl),
                      [&](std::int64_t begin, std::int64_t size) {
                        tl::Tensor block = tl.load(from.data + begin, {size}, from.data.dtype());
                        if (factor != 1) block = tl.cast(block, DType::f32) * factor;
                        store(tl, to + begin, block);
                      });
}

void zero(tl::Context& tl, const tl::Pointer& to, std::int64_t length) {
  ops::for_each_block(length, ops::block_elements(tl), [&](std::int64_t begin, std::int64_t size) {
    tl.store(to + begin, tl.zeros({size}, to.dtype()));
  });
}

// Writes what a holder has of a tensor, `length` elements at most: zeros if it is undefined, or if
// others have the summands.
void write(tl::Context& tl, const tl::Pointer& to, const Tensor& tensor, std::int64_t length,
           const Placement& flat, double factor) {
  if (tensor.defined() && has_summand(flat, ops::placement_of(tensor), tl.location())) {
    copy_part(tl, ops::local_part(tensor, tl), to, factor);
  } else {
    zero(tl, to, length);
  }
}

// Returns the shape of a buffer whose holders have `length` elements each.  Cuts become cuts of
// columns where there are several parts, so that each holder has its share of each part.
Shape flat_shape(std::int64_t length, std::int64_t parts, Placement& placement) {
  std::int64_t holders = 1;
  if (placement.cube.is_cut()) holders *= placement.num_cubes;
  if (placement.pe.is_cut()) holders *= placement.num_pes;
  if (holders == 1 || parts == 1) return {length * holders};
  for (Level* level : {&placement.cube, &placement.pe}) {
    if (level->is_cut()) *level = ops::cut(1);
  }
  placement.is_shared = false;
  return {parts, length / parts * holders};
}

std::vector<Tensor> defined(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> all;
  std::ranges::copy_if(tensors, std::back_inserter(all), &Tensor::defined);
  return all;
}

}  // namespace

Bytes bytes_of(const Tensor& tensor) {
  return static_cast<Bytes>(tensor.numel()) * size_of(tensor.dtype());
}

std::vector<BucketItem> bucket_items(const std::vector<Tensor>& tensors) {
  std::vector<BucketItem> items;
  std::vector<Tensor> of_kind;  // the first of each
  for (const Tensor& tensor : tensors) {
    const auto kind = std::ranges::find_if(
        of_kind, [&](const Tensor& first) { return can_share(first, tensor); });
    items.push_back({bytes_of(tensor), static_cast<int>(kind - of_kind.begin())});
    if (kind == of_kind.end()) of_kind.push_back(tensor);
  }
  return items;
}

FlatBuffer::FlatBuffer(const std::vector<Tensor>& tensors, DType dtype, const FlatLayout& layout)
    : parts_(layout.parts) {
  Placement placement = ops::placement_of(tensors.front());
  placement.cube = placement.pe = ops::kReplicate;
  std::int64_t length = 0;
  for (const Tensor& tensor : tensors) {
    const Placement own = ops::placement_of(tensor);
    placement.cube = flat_level(placement.cube, own.cube);
    placement.pe = flat_level(placement.pe, own.pe);
    length = round_up(length, layout.alignment);
    offsets_.push_back(length);
    lengths_.push_back(longest_part(tensor));
    length += lengths_.back();
  }
  length = round_up(length, layout.multiple);
  part_size_ = length / parts_;
  const auto becomes_partial = [&](const Level& level, int holders) {
    return layout.holds_summands && level.is_replicate() && holders > 1;
  };
  if (becomes_partial(placement.cube, placement.num_cubes)) placement.cube = ops::kPartial;
  if (becomes_partial(placement.pe, placement.num_pes)) placement.pe = ops::kPartial;
  flat_ = ops::make_like(tensors.front(), "bucket", flat_shape(length, parts_, placement), dtype,
                         placement);
  runtime::mark_memory(flat_, MemoryKind::communication);
  runtime::fill(*flat_.storage(), 0);
}

Tensor FlatBuffer::part(std::int64_t index) const {
  if (parts_ == 1) return flat_;
  const bool has_rows = flat_.shape().rank() > 1;
  return flat_.narrow(0, has_rows ? index : index * part_size_, has_rows ? 1 : part_size_);
}

void FlatBuffer::pack(const std::vector<Tensor>& tensors, double factor) const {
  const Placement whole = ops::placement_of(flat_);
  ops::launch("pack_bucket", {flat_}, defined(tensors),
              [flat = flat_, tensors, offsets = offsets_, lengths = lengths_, whole,
               factor](tl::Context& tl) {
                const tl::Pointer target = ops::local_part(flat, tl).data;
                for (std::size_t i = 0; i < tensors.size(); ++i) {
                  write(tl, target + offsets[i], tensors[i], lengths[i], whole, factor);
                }
              });
}

Tensor FlatBuffer::view(std::size_t index, const Shape& shape) const {
  const Placement placement = ops::placement_of(flat_);
  if (!placement.cube.is_replicate() || !placement.pe.is_replicate()) return {};
  return reshape(flat_.narrow(0, offsets_[index], shape.numel()), shape);
}

void FlatBuffer::add(std::size_t index, const Tensor& tensor) const {
  ops::launch("add_to_bucket", {flat_}, {tensor},
              [flat = flat_, tensor, offset = offsets_[index], whole = ops::placement_of(flat_),
               own = ops::placement_of(tensor)](tl::Context& tl) {
                if (!has_summand(whole, own, tl.location())) return;
                const tl::Pointer target = ops::local_part(flat, tl).data + offset;
                const ops::LocalPart from = ops::local_part(tensor, tl);
                ops::for_each_block(from.shape.numel(), ops::block_elements(tl),
                                    [&](std::int64_t begin, std::int64_t size) {
                                      const auto load = [&](const tl::Pointer& at) {
                                        return tl.cast(tl.load(at + begin, {size}, at.dtype()),
                                                       DType::f32);
                                      };
                                      store(tl, target + begin, load(target) + load(from.data));
                                    });
              });
}

void FlatBuffer::set(std::size_t index, const Tensor& tensor) const {
  ops::launch("set_in_bucket", {flat_}, {tensor},
              [flat = flat_, tensor, offset = offsets_[index], length = lengths_[index],
               whole = ops::placement_of(flat_)](tl::Context& tl) {
                write(tl, ops::local_part(flat, tl).data + offset, tensor, length, whole, 1);
              });
}

void FlatBuffer::clear(const std::vector<std::size_t>& indices) const {
  ops::launch("clear_in_bucket", {flat_}, {},
              [flat = flat_, indices, offsets = offsets_, lengths = lengths_](tl::Context& tl) {
                const tl::Pointer target = ops::local_part(flat, tl).data;
                for (const std::size_t i : indices) zero(tl, target + offsets[i], lengths[i]);
              });
}

void FlatBuffer::unpack(const Tensor& flat, const std::vector<Tensor>& tensors) const {
  std::vector<Tensor> written = defined(tensors);
  if (written.empty()) return;
  written.insert(written.begin(), flat);  // whose holders all run the kernel; it stays as it is
  ops::launch("unpack_bucket", written, {}, [flat, tensors, offsets = offsets_](tl::Context& tl) {
    const ops::LocalPart whole = ops::local_part(flat, tl);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      const ops::LocalPart to = ops::local_part(tensors[i], tl);
      copy_part(tl, {whole.data + offsets[i], to.shape, {}, 0, 0}, to.data, 1);
    }
  });
}

}  // namespace kernbench::nn::parallel
