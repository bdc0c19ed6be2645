// Hands out the HBM of one SIP, slice by slice, as virtual addresses.
//
// Each PE has the HBM slice that is local to it (Routing::hbm_slice_count).  A slice is a range of
// the SIP's address space; blocks are taken first-fit and joined again when they are freed.

#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "sim_engine/base/memory_kind.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

// Says for what a block is allocated.
struct HbmUse {
  enum class Holder : std::uint8_t { tensor, queue };

  Holder holder = Holder::tensor;
  MemoryKind kind = MemoryKind::temporary;
  // A number of the tensors' allocations and frees, of which later ones have larger numbers; 0:
  // none, as of a queue.
  std::uint64_t event = 0;
};

class HbmAllocator {
 public:
  HbmAllocator(const Topology& topology, int sip);

  // Throws DeviceError KB-M010 if the PE's slice has no block that is large enough.
  Bytes allocate(int cube, int pe, Bytes bytes, const HbmUse& use = {});
  void free(Bytes address, Bytes bytes, const HbmUse& use = {});
  // A block of this size that was allocated by event `made`, and lives, is of another kind, and was
  // so at the peak.
  void change_kind(Bytes bytes, std::uint64_t made, MemoryKind from, MemoryKind to);

  // Returns the size of the block that this many bytes take.
  static Bytes block_bytes(Bytes bytes);

  Bytes capacity() const { return slice_bytes_ * slices_per_cube_ * topology_.cube_count(); }
  Bytes allocated() const { return sums_.allocated; }
  // The most that was allocated at a time, since the beginning or reset_peak().
  Bytes peak() const { return sums_.peak; }
  void reset_peak();
  // Copies the sums, which set_sums() restores: a tensor's blocks that have all been freed again,
  // since another block of it was refused, are no part of the peak.
  struct Sums {
    Bytes allocated = 0;
    Bytes peak = 0;
    MemoryByKind by_kind = {};
    MemoryByKind peak_by_kind = {};  // taken when the peak is left
    std::uint64_t last_event = 0;
    std::uint64_t peak_event = 0;  // likewise
    bool is_at_peak = true;
  };
  const Sums& sums() const { return sums_; }
  // REQUIRES: as much is allocated as then
  void set_sums(const Sums& sums);
  // These are the bytes of each kind, now and at the peak; at the first, if there are several.
  const MemoryByKind& by_kind() const { return sums_.by_kind; }
  const MemoryByKind& peak_by_kind() const {
    return sums_.is_at_peak ? sums_.by_kind : sums_.peak_by_kind;
  }
  // Returns the last event up to the peak.
  std::uint64_t peak_event() const {
    return sums_.is_at_peak ? sums_.last_event : sums_.peak_event;
  }

 private:
  // The free blocks of a slice.
  struct FreeBlocks {
    std::map<Bytes, Bytes> sizes;                // by address
    std::map<Bytes, std::set<Bytes>> addresses;  // by size: there are few, of any number of blocks

    void add(Bytes address, Bytes size);
    void remove(std::map<Bytes, Bytes>::iterator block);
    // Returns the first block of at least so many bytes; sizes.end() if there is none.
    std::map<Bytes, Bytes>::iterator find_first(Bytes size);
  };

  int slice_of(int cube, int pe) const;
  void count(Bytes bytes, const HbmUse& use);
  void leave_peak();
  [[noreturn]] void fail(int cube, int pe, Bytes bytes, HbmUse::Holder holder, Bytes largest) const;

  const Topology& topology_;
  const int sip_;
  const int slices_per_cube_;
  const Bytes slice_bytes_;
  std::map<int, FreeBlocks> free_;    // by slice, of slices in use
  std::map<int, Bytes> queue_bytes_;  // by slice: bytes held by queues
  Sums sums_;
};

}  // namespace kernbench::sim
