#include "runtime/parallel/flat_buffer.h"

#include <algorithm>
#include <iterator>

#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
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

// True if this holder's elements count, beside others' summands.
bool counts(const Level& flat, const Level& of_tensor, int holder) {
  return !flat.is_partial() || of_tensor.is_partial() || holder == 0;
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

void clear(tl::Context& tl, const tl::Pointer& to, std::int64_t length) {
  ops::for_each_block(length, ops::block_elements(tl), [&](std::int64_t begin, std::int64_t size) {
    tl.store(to + begin, tl.zeros({size}, to.dtype()));
  });
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

FlatBuffer::FlatBuffer(const std::vector<Tensor>& tensors, DType dtype) {
  Placement placement = ops::placement_of(tensors.front());
  placement.cube = placement.pe = ops::kReplicate;
  std::int64_t length = 0;
  for (const Tensor& tensor : tensors) {
    const Placement own = ops::placement_of(tensor);
    placement.cube = flat_level(placement.cube, own.cube);
    placement.pe = flat_level(placement.pe, own.pe);
    offsets_.push_back(length);
    lengths_.push_back(longest_part(tensor));
    length += lengths_.back();
  }
  if (placement.cube.is_cut()) length *= placement.num_cubes;
  if (placement.pe.is_cut()) length *= placement.num_pes;
  flat_ = ops::make_like(tensors.front(), "bucket", {length}, dtype, placement);
  runtime::fill(*flat_.storage(), 0);
}

void FlatBuffer::pack(const std::vector<Tensor>& tensors, double factor) const {
  const Placement whole = ops::placement_of(flat_);
  ops::launch("pack_bucket", {flat_}, defined(tensors),
              [flat = flat_, tensors, offsets = offsets_, lengths = lengths_, whole,
               factor](tl::Context& tl) {
                const tl::Pointer target = ops::local_part(flat, tl).data;
                for (std::size_t i = 0; i < tensors.size(); ++i) {
                  const tl::Pointer to = target + offsets[i];
                  if (!tensors[i].defined()) {
                    clear(tl, to, lengths[i]);
                    continue;
                  }
                  const Placement own = ops::placement_of(tensors[i]);
                  const bool has_summand = counts(whole.cube, own.cube, tl.location().cube) &&
                                           counts(whole.pe, own.pe, tl.location().pe);
                  if (has_summand) {
                    copy_part(tl, ops::local_part(tensors[i], tl), to, factor);
                  } else {
                    clear(tl, to, lengths[i]);
                  }
                }
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
