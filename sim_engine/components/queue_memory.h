// Accounts for the memory that queues' slots occupy: in a PE's TCM, a cube's SRAM, or a PE's slice
// of the HBM.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim_engine/components/hbm_allocator.h"
#include "sim_engine/components/processing_element.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

class QueueMemory {
 public:
  // `hbm` is by SIP.  REQUIRES: both outlive this
  QueueMemory(const Topology& topology, std::span<HbmAllocator> hbm);

  // Reserves memory for the slots of a queue to `receiver`, until give_back_all().  Throws
  // DeviceError KB-M010, naming what fills the memory, if they do not fit.
  void take(ProcessingElement& receiver, const IpcqParams& params);
  // Sets bytes of the SRAM of a PE's cube aside for queues that are made later, until
  // give_back_all().  Returns false, and takes nothing, if they are not free.
  bool reserve_sram(const PeLocation& receiver, Bytes bytes);
  void give_back_all();

  // Bytes of the SRAM of this PE's cube that queues hold.
  Bytes sram_held(const PeLocation& at) const {
    return sram_[static_cast<std::size_t>(at.sip * topology_.cube_count() + at.cube)];
  }

 private:
  struct HbmBlock {
    int sip;
    Bytes address;
    Bytes bytes;
  };

  Bytes& sram_at(const PeLocation& receiver);
  void take_tcm(ProcessingElement& receiver, const IpcqParams& params);
  void take_sram(const PeLocation& receiver, const IpcqParams& params);
  void take_hbm(const PeLocation& receiver, const IpcqParams& params);

  const Topology& topology_;
  const std::span<HbmAllocator> hbm_;
  std::vector<ProcessingElement*> tcm_receivers_;
  std::vector<Bytes> sram_;  // held, by SIP and cube
  std::vector<HbmBlock> blocks_;
};

}  // namespace kernbench::sim
