#include "sim_engine/components/fabric.h"

#include <algorithm>
#include <span>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::sim {

namespace {

constexpr std::uint64_t kNumbers = (std::uint64_t{1} << 40) - 1;  // a visit has 40 bits for one

}  // namespace

Fabric::Fabric(Engine& engine, const Topology& topology, TraceRecorder* trace, int fold)
    : engine_(engine),
      routing_(topology),
      trace_(trace),
      folding_(topology, fold),
      packet_(topology.communication.packet),
      turns_(topology.cube.hbm.turn_around > Time{0}),
      steps_(trace != nullptr),
      links_(routing_.link_count()),
      bookings_(links_.size()) {
  for (LinkId link = 0; link < links_.size(); ++link) links_[link].spec = routing_.spec(link);
  if (packet_ > 0) meetings_.resize(links_.size());
}

Fabric::Transfer& Fabric::take_transfer() {
  if (free_transfer_ != nullptr) {
    Transfer& taken = *std::exchange(free_transfer_, free_transfer_->next_free);
    return taken;
  }
  Transfer& added = transfers_.emplace_back();
  added.arrivals.resize(longest_way_);
  return added;
}

void Fabric::send(const Path& path, Bytes bytes, const Event& delivered, Time delay,
                  Priority priority, std::optional<CauseLog::Id> cause) {
  KB_CHECK(bytes >= 0, "{} bytes", bytes);
  if (work_ != nullptr) [[unlikely]]
    note_work(path, bytes);
  const CauseLog* const causes = engine_.causes();
  const CauseLog::Id known =
      causes == nullptr ? CauseLog::Id::begin : cause.value_or(causes->current());
  if (path.hops.empty()) {
    engine_.schedule_after(known, delay, delivered);
    return;
  }
  Transfer& transfer = take_transfer();
  const Time now = engine_.now();
  transfer.cause = known;
  transfer.path = &path;
  transfer.number = next_number_++ & kNumbers;
  transfer.bytes = bytes;
  transfer.sent = now;
  transfer.priority =
      priority == Priority::communication && bytes <= packet_ ? Priority::express : priority;
  transfer.hop = 0;
  transfer.delivered = delivered;
  if (faults_ != nullptr) [[unlikely]]
    transfer.slowed = Time{0};
  // The event of a transfer with a delay lies in the future.  One without is at its first link now,
  // and must take its turn there among those of the same moment.
  transfer.arrivals[0] = {now + delay, now + delay};
  if (delay == Time{0}) {
    announce(transfer, transfer.link(links_));
    enter_link(transfer);
  } else {
    go_on(transfer);
  }
}

// The time for which a transfer occupies a link.
Time Fabric::busy_time(const Transfer& transfer, const Link& link) {
  const Time moved = transfer_time(transfer.bytes, link.spec.bandwidth);
  const Path& path = *transfer.path;
  return transfer.hop + 1 == path.hops.size() ? moved + path.turn : moved;
}

// What all visits of a transfer have in common.
inline Fabric::Visit Fabric::visit_of(Transfer& transfer) {
  Visit visit;
  visit.bytes = transfer.bytes;
  visit.number_low = static_cast<std::uint32_t>(transfer.number);
  visit.number_high = static_cast<std::uint8_t>(transfer.number >> 32);
  visit.transfer = &transfer;
  visit.counts = transfer.path->is_of_kernels;
  visit.priority = transfer.priority;
  return visit;
}

inline Fabric::Visit& Fabric::take_visit() {
  if (free_visit_ == nullptr) free_visit_ = &visits_.emplace_back();
  Visit& visit = *std::exchange(free_visit_, free_visit_->next);
  return visit;
}

// Adds the visit of the next hop's link, behind those that will be there earlier.
Fabric::Visit& Fabric::announce(Transfer& transfer, Link& link) {
  Visit& visit = take_visit();
  visit = visit_of(transfer);
  visit.arrival = transfer.arrivals[transfer.hop].head;
  visit.busy = busy_time(transfer, link);
  visit.hop = static_cast<std::uint16_t>(transfer.hop);
  visit.previous = link.last;
  for (int steps = 1; visit.previous != nullptr && precedes(visit, *visit.previous); ++steps) {
    if (steps % kLongWalk == 0) visit.previous = &find_nearer(link, *visit.previous, visit.arrival);
    visit.next = visit.previous;
    visit.previous = visit.previous->previous;
  }
  (visit.previous == nullptr ? link.first : visit.previous->next) = &visit;
  (visit.next == nullptr ? link.last : visit.next->previous) = &visit;
  return visit;
}

// The link of the transfer's hop serves it from the visit's start on.
void Fabric::pass(Transfer& transfer, const Visit& visit, Time latency) {
  Arrival* const arrival = transfer.arrivals.data() + transfer.hop++;
  // The last byte cannot leave a fast link before it has come over a slow one.
  const Time tail = std::max(visit.start + visit.busy, arrival->tail);
  arrival[1] = {visit.start + latency, tail + latency};
}

inline void Fabric::serve(Link& link, const Visit& visit) {
  link.server.reserve(visit.arrival, visit.busy, visit.counts);
  link.carried += visit.bytes;
}

// Serves a visit of one of links_.
inline void Fabric::serve_for_good(Link& link, const Visit& visit) {
  if (use_ != nullptr) [[unlikely]]
    note_use(*use_, link, visit);
  serve(link, visit);
}

// Books as many hops as can be, and schedules what is next.
void Fabric::go_on(Transfer& transfer) {
  const std::span<const LinkId> hops = transfer.path->hops;
  Link* const links = links_.data();
  const Time now = engine_.now();
  Visit booked = visit_of(transfer);
  booked.is_booked = true;
  while (transfer.hop < hops.size()) {
    Link& link = links[hops[transfer.hop]];
    if (book_behind_all(transfer, link, booked)) continue;
    Visit& visit = replace_past(transfer, link);
    if (!can_book(link, visit)) {
      transfer.pending = engine_.schedule_after(transfer.cause, visit.arrival - now,
                                                Engine::call<&Fabric::enter_link>(this, transfer));
      return;
    }
    visit.start = link.server.next_start(visit.arrival);
    visit.is_booked = true;
    ++bookings_of(link);
    pass(transfer, visit, link.spec.latency);
  }
  transfer.pending = engine_.schedule_after(cause_of_delivery(transfer),
                                            transfer.arrivals[transfer.hop].tail - now,
                                            Engine::call<&Fabric::deliver>(this, transfer));
}

// True if a head that need not wait at the link is at the next one at the same moment.
bool Fabric::leaves_at_once(const Transfer& transfer, const Link& link) {
  return link.spec.latency == Time{0} && transfer.hop + 1 < transfer.path->hops.size();
}

// Serves what has arrived, and returns the last of these visits if nobody needs it any more, to be
// used again; else nullptr.
inline Fabric::Visit* Fabric::serve_past(Link& link, Time now) {
  Visit* over = nullptr;
  for (Visit* visit = link.first; visit != nullptr && visit->arrival < now; visit = link.first) {
    if (over != nullptr) put_back(*over);
    over = visit;
    serve_for_good(link, *visit);
    --bookings_of(link);
    link.first = visit->next;
    if (visit->is_guide) forget_guide(link, *visit);
    (link.first == nullptr ? link.last : link.first->previous) = nullptr;
    // Others may interrupt what is under way, where there are packets.
    if (packet_ == 0 || link.server.next_start(now) == now) continue;
    if (link.serving != nullptr) put_back(*link.serving);
    link.serving = std::exchange(over, nullptr);
  }
  return over;
}

// Books the next hop if the transfer comes to its link after all others, and need not wait for
// those that are still to come, as is mostly so.  Returns false if it is not so; then no visit of
// the link is over.  `booked` is visit_of() of the transfer, with a booking.
[[gnu::always_inline]] inline bool Fabric::book_behind_all(Transfer& transfer, Link& link,
                                                           Visit& booked) {
  if (steps_ || leaves_at_once(transfer, link)) return false;
  const Arrival* const arrival = transfer.arrivals.data() + transfer.hop;
  const Time head = arrival->head;
  if (transfer.hop > 0 && arrival[-1].head == head) return false;  // see can_book()
  Visit* visit = serve_past(link, engine_.now());
  Visit* const last = link.last;
  const Time start = link.server.next_start(head);
  const bool is_behind = last == nullptr || (last->arrival < head && last->is_booked &&
                                             last->start + last->busy <= start);
  if (!is_behind || (packet_ > 0 && start > head)) {
    if (visit != nullptr) put_back(*visit);
    return false;
  }
  const bool may_turn = turns_ && transfer.path->hbm_hop == static_cast<int>(transfer.hop);
  const Visit* const other = visit != nullptr ? visit : last;
  const bool is_alike = other != nullptr && other->bytes == transfer.bytes && !may_turn;
  booked.arrival = head;
  booked.start = start;
  booked.busy = is_alike ? other->busy : busy_time(transfer, link);
  booked.previous = last;
  booked.hop = static_cast<std::uint16_t>(transfer.hop);
  if (visit == nullptr) visit = &take_visit();
  *visit = booked;
  (last == nullptr ? link.first : last->next) = visit;
  link.last = visit;
  ++bookings_of(link);
  pass(transfer, *visit, link.spec.latency);
  return true;
}

// Serves what has arrived, and adds the visit of the next hop's link.
Fabric::Visit& Fabric::replace_past(Transfer& transfer, Link& link) {
  if (Visit* const over = serve_past(link, engine_.now())) put_back(*over);
  return announce(transfer, link);
}

// True if the link will be free for the visit between those that are known to be before and after
// it.  Links that a head passes at one moment are not booked: part of that could have happened when
// it must be undone.
bool Fabric::can_book(const Link& link, const Visit& visit) const {
  if (steps_) return false;
  if (visit.hop > 0 && visit.arrival == visit.transfer->arrivals[visit.hop - 1].head) return false;
  const Time start = link.server.next_start(visit.arrival);
  if (start == visit.arrival && leaves_at_once(*visit.transfer, link)) return false;
  if (packet_ > 0 && start > visit.arrival) return false;
  if (const Visit* const before = visit.previous) {
    if (!before->is_booked || before->start + before->busy > start) return false;
  }
  const Visit* after = visit.next;  // one that is not booked may give its place up
  while (after != nullptr && !after->is_booked) after = after->next;
  return after == nullptr || after->start >= start + visit.busy;
}

// The head of a transfer has reached the link of its hop.
void Fabric::enter_link(Transfer& transfer) {
  const LinkId id = transfer.path->hops[transfer.hop];
  Link& link = links_[id];
  let_pass(link, transfer);
  Visit& visit = *link.first;
  visit.start = link.server.next_start(visit.arrival);
  if (faults_ != nullptr) [[unlikely]]
    slow_down(id, visit, visit.start);
  serve_for_good(link, visit);
  if (packet_ > 0 && (visit.start > visit.arrival || is_waited_for(id))) {
    unlink(link, visit);
    make_way(link);
    return wait(id, visit);
  }
  if (trace_ != nullptr && visit.busy > Time{0}) record(id, visit.start, visit.busy, visit.bytes);
  if (faults_ != nullptr && is_lost(id, visit)) [[unlikely]]
    return retire(link, visit);
  pass(transfer, visit, link.spec.latency);
  retire(link, visit);
  make_way(link);
  go_on(transfer);
}

// Lets the link serve what is before the transfer, which enters it now.
void Fabric::let_pass(Link& link, const Transfer& transfer) {
  while (link.first->number() != transfer.number || link.first->hop != transfer.hop) {
    Visit& before = *link.first;
    if (before.is_booked) {
      serve_for_good(link, before);
      --bookings_of(link);
      retire(link, before);
    } else {  // its event is due now, too
      engine_.cancel(before.transfer->pending);
      enter_link(*before.transfer);
    }
  }
}

// Undoes the bookings that the link can no longer serve when it said.
void Fabric::make_way(Link& link) {
  std::uint32_t& left = bookings_of(link);
  for (Visit* visit = link.first; left > 0; visit = visit->next) {
    if (!visit->is_booked) continue;
    if (visit->start >= link.server.next_start(visit->arrival)) return;
    undo(*visit);
  }
}

// The transfer will enter the link of this visit in an event, and forgets the links behind.
void Fabric::undo(Visit& visit) {
  Transfer& transfer = *visit.transfer;
  const auto known = std::min<std::size_t>(transfer.path->hops.size(), transfer.hop + 1);
  --bookings_of(links_[transfer.path->hops[visit.hop]]);
  for (std::size_t hop = visit.hop + 1; hop < known; ++hop) {
    Link& link = links_[transfer.path->hops[hop]];
    drop(link, find_visit(link, transfer, hop));
  }
  visit.is_booked = false;
  transfer.hop = visit.hop;
  engine_.cancel(transfer.pending);
  transfer.pending = engine_.schedule_after(transfer.cause, visit.arrival - engine_.now(),
                                            Engine::call<&Fabric::enter_link>(this, transfer));
}

void Fabric::hand_over(Transfer& transfer) {
  const Event delivered = transfer.delivered;
  // The transfer is free before its receiver is called, because the receiver may send the next
  // message in it.
  transfer.next_free = std::exchange(free_transfer_, &transfer);
  delivered_ = &transfer;
  delivered.function(delivered.object, delivered.argument);
}

void Fabric::unlink(Link& link, Visit& visit) {
  if (visit.is_guide) forget_guide(link, visit);
  (visit.previous == nullptr ? link.first : visit.previous->next) = visit.next;
  (visit.next == nullptr ? link.last : visit.next->previous) = visit.previous;
}

void Fabric::drop(Link& link, Visit& visit) {
  if (visit.is_booked) --bookings_of(link);
  unlink(link, visit);
  put_back(visit);
}

// The link is at this visit now, or has been.
void Fabric::retire(Link& link, Visit& visit) {
  unlink(link, visit);
  if (packet_ == 0) return put_back(visit);
  // With packets the visit that is served must stay known, since one of a higher priority may
  // interrupt it.
  if (link.serving != nullptr) put_back(*link.serving);
  link.serving = &visit;
}

// The link without visits to come, but with what has arrived by now.
Fabric::Link Fabric::as_of_now(const Link& link) const {
  Link result = link;
  for (const Visit* visit = link.first; visit != nullptr; visit = visit->next) {
    if (visit->is_booked && visit->arrival <= engine_.now()) serve(result, *visit);
  }
  result.first = result.last = result.serving = nullptr;
  return result;
}

void Fabric::reset() {
  for (Link& link : links_) {
    link = as_of_now(link);
    link.server.release(engine_.now());
  }
  std::ranges::fill(bookings_, 0);
  for (auto& meeting : meetings_) meeting.reset();
  arrived_.clear();
  handed_over_.clear();
  transfers_.clear();
  free_transfer_ = nullptr;
  guides_.clear();
  visits_.clear();
  free_visit_ = nullptr;
}

}  // namespace kernbench::sim
