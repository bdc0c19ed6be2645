// Transfers that meet on a link, where the topology has packets.

#include <utility>

#include "sim_engine/components/fabric.h"

namespace kernbench::sim {

bool Fabric::is_waited_for(LinkId link) const {
  return meetings_[link] != nullptr && meetings_[link]->arbiter.is_waited_for();
}

// The head of a transfer has reached a link that is at others.  Their work is part of
// link.server, which need not know in which order it is done.
void Fabric::wait(LinkId id, Visit& visit) {
  Link& link = links_[id];
  auto& meeting = meetings_[id];
  if (meeting == nullptr) {
    meeting = std::make_unique<Meeting>(
        Meeting{LinkArbiter(transfer_time(packet_, link.spec.bandwidth)), std::nullopt});
  }
  if (Visit* const serving = std::exchange(link.serving, nullptr)) {
    while (void* const ended = meeting->arbiter.take_ended(engine_.now())) {
      put_back(*static_cast<Visit*>(ended));
    }
    if (serving->start + serving->busy > engine_.now()) {
      meeting->arbiter.occupy({serving, serving->priority, serving->busy}, serving->start);
    } else {
      put_back(*serving);
    }
  }
  meeting->arbiter.add({&visit, visit.priority, visit.busy});
  decide(id);
}

// Begins what is due at this link, and finds out when the next is.
void Fabric::decide(std::uint64_t id) {
  Meeting& meeting = *meetings_[id];
  const Time now = engine_.now();
  if (meeting.decision) engine_.cancel(*std::exchange(meeting.decision, std::nullopt));
  for (;;) {
    while (void* const ended = meeting.arbiter.take_ended(now)) {
      put_back(*static_cast<Visit*>(ended));
    }
    if (faults_ != nullptr) [[unlikely]]
      retime_waiting(static_cast<LinkId>(id), meeting.arbiter);
    void* const next = meeting.arbiter.begin_next(now);
    if (next == nullptr) break;
    begin_waiting(static_cast<LinkId>(id), *static_cast<Visit*>(next), meeting);
  }
  const Time next = meeting.arbiter.next_decision();
  if (next == Time::max()) return;
  meeting.decision = engine_.schedule(next - now, Engine::call<&Fabric::due>(this, id));
}

void Fabric::due(std::uint64_t id) {
  meetings_[id]->decision.reset();
  decide(id);
}

void Fabric::begin_waiting(LinkId id, Visit& visit, const Meeting& meeting) {
  for (const LinkArbiter::Entry& entry : meeting.arbiter.interrupted()) {
    prolong(*static_cast<const Visit*>(entry.who), entry.end);
  }
  Transfer& transfer = *visit.transfer;
  visit.start = engine_.now();
  if (trace_ != nullptr && visit.busy > Time{0}) record(id, visit.start, visit.busy, visit.bytes);
  if (faults_ != nullptr && is_lost(id, visit)) [[unlikely]]
    return;
  pass(transfer, visit, links_[id].spec.latency);
  go_on(transfer);
}

// A transfer leaves a link later than it was to, since others have gone ahead of its last packets.
void Fabric::prolong(const Visit& visit, Time end) {
  Transfer& transfer = *visit.transfer;
  const std::vector<LinkId>& hops = transfer.path->hops;
  Time tail = end;
  for (std::size_t hop = visit.hop; hop < transfer.hop; ++hop) {
    Time& known = transfer.arrivals[hop + 1].tail;
    tail += links_[hops[hop]].spec.latency;
    if (known >= tail) return;
    known = tail;
  }
  if (transfer.hop < hops.size()) return;
  engine_.cancel(transfer.pending);
  transfer.pending = engine_.schedule_after(cause_of_delivery(transfer), tail - engine_.now(),
                                            Engine::call<&Fabric::deliver>(this, transfer));
}

}  // namespace kernbench::sim
