// A PE: its PE_CPU, which kernels take in turn, its scratch, and the parts that do the work.
//
// Models:      a PE runs one kernel of a user's at a time; kernels of collectives run beside it
//              (ADR-0120).  The TCM holds the slots of queues for good, and values as scratch.
// Not modeled: contention of kernels for the PE_CPU (ADR-0120).

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim_engine/components/pe_ipcq.h"
#include "sim_engine/components/pe_scheduler.h"
#include "sim_engine/components/pe_services.h"

namespace kernbench::sim {

class ProcessingElement {
 public:
  ProcessingElement(PeServices& services, const PeLocation& location, std::uint32_t number)
      : services_(services), scheduler_(services, location, number) {}

  const PeLocation& location() const { return scheduler_.location(); }
  PeServices& services() { return services_; }
  const PeServices& services() const { return services_; }
  PeScheduler& scheduler() { return scheduler_; }
  PeIpcq& ipcq() { return ipcq_; }
  const PeIpcq& ipcq() const { return ipcq_; }

  // The TCM as scratch: its capacity without what queues hold for good, and the bytes that values
  // hold now.  On a PE at the end of a queue, users' kernels leave Topology::Communication::scratch
  // to collectives, which may take all that is free (ADR-0120).
  Bytes scratch_capacity() const { return services_.topology.pe.tcm.capacity - queue_bytes_; }
  Bytes scratch_capacity(bool for_collective) const {
    return scratch_capacity() - (for_collective ? 0 : reserved_scratch());
  }
  // The scratch for which operators choose their tiles.  Throws DeviceError KB-M010 if tiles are
  // fixed and queues leave less than they are made for.
  Bytes scratch_for_tiles(bool for_collective) const;
  Bytes scratch_in_use() const { return users_scratch_ + collectives_scratch_; }
  Bytes& scratch_of(bool collective) { return collective ? collectives_scratch_ : users_scratch_; }
  Bytes free_scratch(bool for_collective) const {
    const Bytes free = scratch_capacity() - scratch_in_use();
    return for_collective ? free : std::min(free, scratch_capacity(false) - users_scratch_);
  }
  void set_queue_bytes(Bytes bytes) { queue_bytes_ = bytes; }

  // A PE runs one kernel of a user's at a time, in the order in which they reach it: `begin` is
  // called when it is this one's turn, at once if the PE is free.  The kernel that was called must
  // release() the PE.  Kernels of collectives do not claim it: the PE_CPU has contexts of its own
  // for them, any number, and the units serve all kernels in the order of their commands
  // (ADR-0120).
  void claim(const Event& begin);
  void release();

  // Counts the kernels that run, of users and of collectives.
  void kernel_began() { ++kernel_count_; }
  void kernel_ended();
  int kernel_count() const { return kernel_count_; }

  // Calls `event` once when scratch may have become free, unless it is forgotten before: at the end
  // of a command or of a kernel, or when a kernel lets go of a value.
  void wake_on_scratch(const Event& event) { scratch_waiters_.push_back(event); }
  void forget_scratch_waiter(const Event& event);
  void scratch_may_be_free() {
    if (!scratch_waiters_.empty()) wake_scratch_waiters();
  }

  // Adds time that the PE_CPU spends on issuing commands.
  void count_cpu(Time busy) { cpu_busy_ += busy; }

  // The waits of the kernels that have ended, and of their commands, by cause.
  Waits& waits() { return waits_; }
  const Waits& waits() const { return waits_; }

  // The time for which each unit of this PE has been busy: cpu, and those of
  // PeScheduler::unit_uses().
  std::array<PeUnitUse, 12> unit_uses() const;
  const ComputeTraffic& compute_traffic() const { return scheduler_.compute_traffic(); }

  // Drops reservations, claims and waiters, after a run that failed.  Scratch comes back with the
  // tiles.
  void reset();

 private:
  void wake_scratch_waiters();
  Bytes reserved_scratch() const {
    if (ipcq_.queue_count() == 0) return 0;
    return std::min(services_.topology.communication.scratch, scratch_capacity());
  }

  // The members that each command touches come first, so that they share cache lines.
  PeServices& services_;
  PeScheduler scheduler_;
  Time cpu_busy_{0};
  std::vector<Event> scratch_waiters_;
  Bytes queue_bytes_ = 0;
  Bytes users_scratch_ = 0;
  Bytes collectives_scratch_ = 0;
  int kernel_count_ = 0;
  PeIpcq ipcq_{scheduler_};
  bool is_claimed_ = false;
  std::vector<Event> claims_;  // kernels that wait for their turn
  Waits waits_;
};

}  // namespace kernbench::sim
