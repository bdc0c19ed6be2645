// Links with faults.

#include "sim_engine/components/fabric.h"
#include "sim_engine/components/machine_faults.h"

namespace kernbench::sim {

// How long a message occupies a link is known when it begins, so none is booked ahead.
void Fabric::set_faults(MachineFaults& faults) {
  faults_ = &faults;
  step_through_links();
}

// The visit takes as long as the link's faults say, if it begins at `start`.
void Fabric::slow_down(LinkId id, Visit& visit, Time start) {
  if (!faults_->has_link(id)) return;
  const Time alone = busy_time(*visit.transfer, links_[id]);
  visit.busy = faults_->occupied_time(id, start, alone);
}

// Transfers that wait were timed for when the link seemed to be free.
void Fabric::retime_waiting(LinkId id, LinkArbiter& arbiter) {
  if (!faults_->has_link(id)) return;
  arbiter.for_each_next([&](LinkArbiter::Entry& entry) {
    Visit& visit = *static_cast<Visit*>(entry.who);
    slow_down(id, visit, engine_.now());
    links_[id].server.prolong(visit.busy - entry.busy, visit.counts);
    entry.busy = visit.busy;
  });
}

// Notes what the link does to a visit that begins; true if it never leaves it.
bool Fabric::is_lost(LinkId id, const Visit& visit) {
  if (!faults_->has_link(id)) return false;
  Transfer& transfer = *visit.transfer;
  // Beside the slowest link of the way only what this one takes more counts.
  const Time slowed = visit.busy - transfer_time(transfer.bytes, transfer.path->bottleneck);
  if (slowed > transfer.slowed) {
    transfer.slowed = slowed;
    transfer.slow_link = id;
  }
  return faults_->pass(id, *transfer.path, transfer.bytes, visit.start,
                       busy_time(transfer, links_[id]));
}

}  // namespace kernbench::sim
