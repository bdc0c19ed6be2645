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

Bytes HbmAllocator::allocate(int cube, int pe, Bytes bytes, Holder holder) {
  const int slice = slice_of(cube, pe);
  const auto [place, is_new] = free_.try_emplace(slice);
  auto& blocks = place->second;
  if (is_new) blocks.emplace(slice * slice_bytes_, slice_bytes_);

  const Bytes wanted = block_bytes(bytes);
  Bytes largest = 0;
  for (auto block = blocks.begin(); block != blocks.end(); ++block) {
    const auto [address, size] = *block;
    largest = std::max(largest, size);
    if (size < wanted) continue;
    blocks.erase(block);
    if (size > wanted) blocks.emplace(address + wanted, size - wanted);
    allocated_ += wanted;
    peak_ = std::max(peak_, allocated_);
    if (holder == Holder::queue) queue_bytes_[slice] += wanted;
    return address;
  }
  fail(cube, pe, bytes, holder, largest);
}

void HbmAllocator::fail(int cube, int pe, Bytes bytes, Holder holder, Bytes largest) const {
  const auto queues = queue_bytes_.find(slice_of(cube, pe));
  const Bytes held = queues == queue_bytes_.end() ? 0 : queues->second;
  throw DeviceError("KB-M010",
                    "out of HBM on sip{}.cube{}.pe{}: {} {} B, largest free block {} B, capacity "
                    "of the PE's slice {} B{}",
                    sip_, cube, pe, holder == Holder::queue ? "a queue needs" : "requested", bytes,
                    largest, slice_bytes_,
                    held > 0 ? fmt::format(", of which queues hold {} B", held) : "");
}

void HbmAllocator::free(Bytes address, Bytes bytes, Holder holder) {
  const int slice = static_cast<int>(address / slice_bytes_);
  auto& blocks = free_.at(slice);
  Bytes size = block_bytes(bytes);
  allocated_ -= size;
  if (holder == Holder::queue) queue_bytes_[slice] -= size;
  auto next = blocks.lower_bound(address);
  KB_CHECK(next == blocks.end() || next->first >= address + size, "freed twice: {}", address);
  if (next != blocks.end() && next->first == address + size) {
    size += next->second;
    next = blocks.erase(next);
  }
  if (next != blocks.begin() && std::prev(next)->first + std::prev(next)->second == address) {
    std::prev(next)->second += size;
  } else {
    blocks.emplace(address, size);
  }
}

}  // namespace kernbench::sim
