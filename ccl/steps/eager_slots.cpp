#include "ccl/steps/eager_slots.h"

#include <algorithm>
#include <cstddef>

namespace kernbench::ccl {

namespace {

constexpr Bytes kQueues = 64;  // to a PE
constexpr Bytes kShareOfSram = 8;

// Returns how many queues to a PE have slots.
int count_queues(const Topology& topology, Bytes largest) {
  if (largest == 0) return 0;
  const Bytes share = topology.cube.sram.capacity / kShareOfSram / topology.pe_count();
  return static_cast<int>(std::min(kQueues, share / (EagerSlots::kDepth * largest)));
}

}  // namespace

EagerSlots::EagerSlots(sim::Machine& machine, Bytes largest)
    : topology_(machine.topology()), largest_(largest) {
  const int queues = count_queues(topology_, largest_);
  const auto reserve = [&](const sim::PeLocation& pe) {
    return queues > 0 && machine.folding().is_simulated(pe.sip) &&
           machine.reserve_for_queues(pe, queues * kDepth * largest_);
  };
  for (int sip = 0; sip < topology_.system.sip_count; ++sip) {
    for (int cube = 0; cube < topology_.cube_count(); ++cube) {
      for (int pe = 0; pe < topology_.pe_count(); ++pe) {  // in the order of their numbers
        free_.push_back(reserve({sip, cube, pe}) ? queues : 0);
      }
    }
  }
}

bool EagerSlots::take(const sim::PeLocation& receiver) {
  int& left = free_at(receiver);
  if (left == 0) return false;
  --left;
  return true;
}

void EagerSlots::give_back(const sim::PeLocation& receiver) {
  ++free_at(receiver);
}

void EagerSlots::set(sim::IpcqParams& params) const {
  params.buffer_kind = sim::BufferKind::sram;
  params.depth = kDepth;
  params.slot_bytes = largest_;
  params.is_reserved = true;
}

int& EagerSlots::free_at(const sim::PeLocation& receiver) {
  return free_[static_cast<std::size_t>(sim::pe_number(topology_, receiver))];
}

}  // namespace kernbench::ccl
