// Hands out the HBM of one SIP, slice by slice, as virtual addresses.
//
// Each PE has the HBM slice that is local to it (Routing::hbm_slice_count).  A slice is a range of
// the SIP's address space; blocks are taken first-fit and joined again when they are freed.

#pragma once

#include <map>

#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

class HbmAllocator {
 public:
  HbmAllocator(const Topology& topology, int sip);

  enum class Holder { tensor, queue };

  // Throws DeviceError KB-M010 if the PE's slice has no block that is large enough.
  Bytes allocate(int cube, int pe, Bytes bytes, Holder holder = Holder::tensor);
  void free(Bytes address, Bytes bytes, Holder holder = Holder::tensor);

  // Returns the size of the block that this many bytes take.
  static Bytes block_bytes(Bytes bytes);

  Bytes capacity() const { return slice_bytes_ * slices_per_cube_ * topology_.cube_count(); }
  Bytes allocated() const { return allocated_; }
  // The most that was allocated at a time, since the beginning or reset_peak().
  Bytes peak() const { return peak_; }
  void reset_peak() { peak_ = allocated_; }

 private:
  int slice_of(int cube, int pe) const;
  [[noreturn]] void fail(int cube, int pe, Bytes bytes, Holder holder, Bytes largest) const;

  const Topology& topology_;
  const int sip_;
  const int slices_per_cube_;
  const Bytes slice_bytes_;
  std::map<int, std::map<Bytes, Bytes>> free_;  // by slice: address -> size, of slices in use
  std::map<int, Bytes> queue_bytes_;            // by slice: bytes held by queues
  Bytes allocated_ = 0;
  Bytes peak_ = 0;
};

}  // namespace kernbench::sim
