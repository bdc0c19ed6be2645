#include "sim_engine/components/hbm_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/routing.h"

namespace kernbench::sim {

namespace {

constexpr Bytes kAlignment = 256;

}  // namespace

Bytes HbmAllocator::block_bytes(Bytes bytes) {
  return (std::max<Bytes>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

HbmAllocator::HbmAllocator(const Topology& topology, int sip)
    : topology_(topology),
      sip_(sip),
      slices_per_cube_(Routing::hbm_slice_count(topology)),
      slice_bytes_(topology.cube.hbm.capacity / slices_per_cube_ / kAlignment * kAlignment) {}

int HbmAllocator::slice_of(int cube, int pe) const {
  return cube * slices_per_cube_ + Routing::hbm_slice_of(topology_, pe);
}

void HbmAllocator::leave_peak() {
  if (!sums_.is_at_peak) return;
  sums_.peak_by_kind = sums_.by_kind;
  sums_.peak_event = sums_.last_event;
  sums_.is_at_peak = false;
}

void HbmAllocator::reset_peak() {
  sums_.peak = sums_.allocated;
  sums_.is_at_peak = true;
}

void HbmAllocator::set_sums(const Sums& sums) {
  KB_CHECK(sums.allocated == sums_.allocated, "sums of other blocks are restored");
  sums_ = sums;
}

void HbmAllocator::change_kind(Bytes bytes, std::uint64_t made, MemoryKind from, MemoryKind to) {
  const Bytes size = block_bytes(bytes);
  const auto move = [&](MemoryByKind& kinds) {
    kinds[from] -= size;
    kinds[to] += size;
  };
  if (!sums_.is_at_peak && made <= sums_.peak_event) move(sums_.peak_by_kind);
  move(sums_.by_kind);
}

// Counts a block of this size as allocated, or as freed if that is below 0.
void HbmAllocator::count(Bytes bytes, const HbmUse& use) {
  if (bytes < 0) leave_peak();
  sums_.allocated += bytes;
  sums_.by_kind[use.kind] += bytes;
  sums_.last_event = std::max(sums_.last_event, use.event);
  if (sums_.allocated <= sums_.peak) return;
  sums_.peak = sums_.allocated;
  sums_.is_at_peak = true;
}

void HbmAllocator::FreeBlocks::add(Bytes address, Bytes size) {
  sizes.emplace(address, size);
  addresses[size].insert(address);
}

void HbmAllocator::FreeBlocks::remove(std::map<Bytes, Bytes>::iterator block) {
  const auto same = addresses.find(block->second);
  same->second.erase(block->first);
  if (same->second.empty()) addresses.erase(same);
  sizes.erase(block);
}

std::map<Bytes, Bytes>::iterator HbmAllocator::FreeBlocks::find_first(Bytes size) {
  const auto begin = addresses.lower_bound(size);
  if (begin == addresses.end()) return sizes.end();
  Bytes first = *begin->second.begin();
  for (auto same = std::next(begin); same != addresses.end(); ++same) {
    first = std::min(first, *same->second.begin());
  }
  return sizes.find(first);
}

Bytes HbmAllocator::allocate(int cube, int pe, Bytes bytes, const HbmUse& use) {
  const int slice = slice_of(cube, pe);
  const auto [place, is_new] = free_.try_emplace(slice);
  FreeBlocks& blocks = place->second;
  if (is_new) blocks.add(slice * slice_bytes_, slice_bytes_);

  const Bytes wanted = block_bytes(bytes);
  const auto block = blocks.find_first(wanted);
  if (block == blocks.sizes.end()) {
    fail(cube, pe, bytes, use.holder,
         blocks.addresses.empty() ? 0 : blocks.addresses.rbegin()->first);
  }
  const auto [address, size] = *block;
  blocks.remove(block);
  if (size > wanted) blocks.add(address + wanted, size - wanted);
  count(wanted, use);
  if (use.holder == HbmUse::Holder::queue) queue_bytes_[slice] += wanted;
  return address;
}

void HbmAllocator::fail(int cube, int pe, Bytes bytes, HbmUse::Holder holder, Bytes largest) const {
  const auto queues = queue_bytes_.find(slice_of(cube, pe));
  const Bytes held = queues == queue_bytes_.end() ? 0 : queues->second;
  throw DeviceError("KB-M010",
                    "out of HBM on sip{}.cube{}.pe{}: {} {} B, largest free block {} B, capacity "
                    "of the PE's slice {} B{}",
                    sip_, cube, pe, holder == HbmUse::Holder::queue ? "a queue needs" : "requested",
                    bytes, largest, slice_bytes_,
                    held > 0 ? fmt::format(", of which queues hold {} B", held) : "");
}

void HbmAllocator::free(Bytes address, Bytes bytes, const HbmUse& use) {
  const int slice = static_cast<int>(address / slice_bytes_);
  FreeBlocks& blocks = free_.at(slice);
  Bytes size = block_bytes(bytes);
  count(-size, use);
  if (use.holder == HbmUse::Holder::queue) queue_bytes_[slice] -= size;
  const auto next = blocks.sizes.lower_bound(address);
  const auto before = next == blocks.sizes.begin() ? blocks.sizes.end() : std::prev(next);
  KB_CHECK(next == blocks.sizes.end() || next->first >= address + size, "freed twice: {}", address);
  if (before != blocks.sizes.end() && before->first + before->second == address) {
    address = before->first;
    size += before->second;
    blocks.remove(before);
  }
  if (next != blocks.sizes.end() && next->first == address + size) {
    size += next->second;
    blocks.remove(next);
  }
  blocks.add(address, size);
}

}  // namespace kernbench::sim
