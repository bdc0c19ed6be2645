// Moves messages over the links.
//
// Models:      cut-through.  The head takes each link's latency; the body occupies each directed
//              link for bytes / bandwidth, first come first served, from the moment the head
//              enters it.
//              Where the topology has packets, those of a higher priority go ahead between two
//              packets of a transfer (link_arbiter.h).
// Not modeled: buffers that fill up.
// Timing:      link i begins at s_i = max(head arrives, link free), is busy for b_i = bytes / bw_i;
//              the head reaches link i+1 at s_i + latency_i; the tail leaves link i at
//              e_i = max(s_i + b_i, e_(i-1) + latency_(i-1)).  Delivered at e_n + latency_n.
//              Unloaded that is the sum of the latencies plus bytes over the slowest link
//              (ADR-0033).
// Ties:        of heads that reach a link at once, that one is first which was earlier where they
//              came from, then which comes from the nearest sender as the link's SIP counts them
//              (Path::seen_places), then which was sent first.  Messages from other
//              SIPs that land at one moment are delivered in this order, too, after all else that
//              happens at that moment: so SIPs that stand alike behave alike.  If ties are
//              shuffled, the order of the links from which heads come is drawn for each link and
//              moment.
// Events:      a message books the links of its way ahead, as long as each will be free for it
//              between the messages that are known, and needs one event, its delivery.  A message
//              that comes to a link before a booked one, and is in its way, undoes the booking from
//              there on: then the booked one enters that link in an event, and books again
//              (ADR-0177).

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim_engine/components/fifo_server.h"
#include "sim_engine/components/link_arbiter.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/components/use_over_time.h"
#include "sim_engine/core/engine.h"

namespace kernbench::sim {

class MachineFaults;
class TraceRecorder;
class WorkLog;

class Fabric {
 public:
  // `fold`: the period of Folding, or 0.  The links of SIPs that are simulated serve all messages,
  // and each other link answers as the one that is simulated for it.
  Fabric(Engine& engine, const Topology& topology, TraceRecorder* trace, int fold = 0);

  const Routing& routing() const { return routing_; }

  // The way between two endpoints; computed once, valid as long as the fabric.
  const Path& path(const Endpoint& from, const Endpoint& to);

  // Sends `bytes` along `path` from now + delay on.  `delivered` is called when the last byte has
  // landed.  Communication that is not longer than a packet is express.
  // With `cause`, that is what now + delay comes of, for the log of causes; else the present event.
  // REQUIRES: bytes >= 0; path outlives the transfer
  void send(const Path& path, Bytes bytes, const Event& delivered, Time delay = Time{0},
            Priority priority = Priority::bulk, std::optional<CauseLog::Id> cause = std::nullopt);

  // The time for which the head of the transfer that is being delivered has waited for links, and
  // for the port of HBM.
  // REQUIRES: its `delivered` is being called; its path has hops
  struct Waiting {
    Time link{0};
    Time hbm{0};
  };
  Waiting waiting_of_delivered() const;

  // Bytes that have entered a link so far.
  Bytes carried(LinkId link) const { return as_of_now(link_for(link)).carried; }

  // The time for which a link has been busy with kernels' data so far.
  Time busy(LinkId link) const { return as_of_now(link_for(link)).server.busy(engine_.now()); }

  // Records from now on when the links between cubes and SIPs are busy.
  void keep_use_over_time();
  // When links have been busy with kernels' data, by LinkId; nullptr if it is not kept.  Over the
  // whole run a link's stretches add up to busy().
  std::unique_ptr<const UseOverTime> use_over_time() const;

  // Enters the bytes of what is sent from now on, once for each link of its way, in `log`.
  // REQUIRES: it outlives this
  void keep_work(WorkLog& log) { work_ = &log; }

  // Lets links have faults from now on.
  // REQUIRES: nothing has been sent; they outlive this
  void set_faults(MachineFaults& faults);

  // Drops the transfers under way and the reservations beyond now (see Engine::clear()).
  void reset();

  // Makes every message enter each link of its way in an event from now on.  Times are the same.
  void step_through_links() { steps_ = true; }

 private:
  struct Transfer;
  // A message that is going to reach a link.  If it is booked, the link is going to serve it from
  // `start` on; else it enters the link in an event.
  // Links and visits are what a message touches most, and most of them are not in a cache: each
  // fits in a line of it.
  struct alignas(64) Visit {
    Time arrival{0};
    Time start{0};
    Time busy{0};
    Bytes bytes = 0;
    Transfer* transfer = nullptr;
    Visit* previous = nullptr;
    Visit* next = nullptr;  // of the link; or the next free one
    // The transfer's number has 40 bits, in two parts: bit fields would be packed at each booking.
    std::uint32_t number_low = 0;
    std::uint8_t number_high = 0;
    bool is_booked : 1 = false;
    bool counts : 1 = false;  // as kernels' use of the link
    Priority priority : 2 = Priority::bulk;
    bool is_guide : 1 = false;  // see find_nearer()
    std::uint16_t hop = 0;

    std::uint64_t number() const { return std::uint64_t{number_high} << 32 | number_low; }
  };
  // Walks along the visits of a link look for a guide after so many steps.
  static constexpr int kLongWalk = 8;
  struct alignas(64) Link {
    FifoServer server;  // without what is booked
    LinkSpec spec;
    Visit* first = nullptr;  // visits, in the order of their arrival
    Visit* last = nullptr;
    Bytes carried = 0;
    Visit* serving = nullptr;  // the one served last, where others may go ahead of it
  };
  static_assert(sizeof(Visit) == 64 && sizeof(Link) == 64);
  // The times at which the head, and the last byte, reach a link.
  struct Arrival {
    Time head{0};
    Time tail{0};
  };
  struct alignas(64) Transfer {
    const Path* path = nullptr;
    std::uint64_t number = 0;  // in the order of send()
    Bytes bytes = 0;
    std::uint32_t hop = 0;  // the first that is not booked
    Priority priority = Priority::bulk;
    EventHandle pending{};          // its entering of `hop`, or its delivery
    CauseLog::Id cause{};           // of its sending
    std::vector<Arrival> arrivals;  // by hop, up to `hop`; behind the last hop, the delivery
    // The members below are not needed at each link.
    Event delivered;
    Transfer* next_free = nullptr;
    Time sent{0};
    Time slowed{0};        // by a fault of a link, if links have any
    LinkId slow_link = 0;  // which that is

    Link& link(std::vector<Link>& links) const { return links[path->hops[hop]]; }
  };

  // A link that several transfers want at once.
  struct Meeting {
    LinkArbiter arbiter;
    std::optional<EventHandle> decision;
  };

  const Link& link_for(LinkId link) const {
    return links_[folding_.is_on() ? routing_.shift(link, folding_) : link];
  }
  void fold(Path& path) const;
  Transfer& take_transfer();
  static Time busy_time(const Transfer& transfer, const Link& link);
  static Visit visit_of(Transfer& transfer);
  Visit& take_visit();
  Visit& announce(Transfer& transfer, Link& link);
  Visit& find_visit(Link& link, const Transfer& transfer, std::size_t hop);
  Visit& find_nearer(Link& link, Visit& at, Time arrival);
  void forget_guide(const Link& link, const Visit& visit);
  Visit& replace_past(Transfer& transfer, Link& link);
  void go_on(Transfer& transfer);
  static bool leaves_at_once(const Transfer& transfer, const Link& link);
  Visit* serve_past(Link& link, Time now);
  bool book_behind_all(Transfer& transfer, Link& link, Visit& booked);
  CauseLog::Id cause_of_delivery(const Transfer& transfer) const;
  bool can_book(const Link& link, const Visit& visit) const;
  static void pass(Transfer& transfer, const Visit& visit, Time latency);
  void enter_link(Transfer& transfer);
  void let_pass(Link& link, const Transfer& transfer);
  void make_way(Link& link);
  void undo(Visit& visit);
  void deliver(Transfer& transfer);
  void deliver_arrived();
  void hand_over(Transfer& transfer);
  // These serve transfers that wait for a busy link, where there are packets.
  void wait(LinkId id, Visit& visit);
  void decide(std::uint64_t id);
  void due(std::uint64_t id);
  bool is_waited_for(LinkId link) const;
  void begin_waiting(LinkId id, Visit& visit, const Meeting& meeting);
  void prolong(const Visit& visit, Time end);
  void retire(Link& link, Visit& visit);
  void unlink(Link& link, Visit& visit);
  std::uint32_t& bookings_of(const Link& link) {
    return bookings_[static_cast<std::size_t>(&link - links_.data())];
  }
  void put_back(Visit& visit) { visit.next = std::exchange(free_visit_, &visit); }
  static void serve(Link& link, const Visit& visit);
  void serve_for_good(Link& link, const Visit& visit);
  void note_use(UseOverTime& use, const Link& link, const Visit& visit) const;
  Link as_of_now(const Link& link) const;
  void drop(Link& link, Visit& visit);
  bool precedes(const Visit& a, const Visit& b) const;
  static std::tuple<int, std::uint32_t, std::uint64_t> sender_seen_at(std::size_t hop,
                                                                      const Transfer& transfer);
  std::uint64_t draw_order(const Visit& visit) const;
  void slow_down(LinkId id, Visit& visit, Time start);
  void retime_waiting(LinkId id, LinkArbiter& arbiter);
  bool is_lost(LinkId id, const Visit& visit);
  void record(LinkId link, Time start, Time busy, Bytes bytes);
  void note_work(const Path& path, Bytes bytes);

  Engine& engine_;
  const Routing routing_;
  TraceRecorder* const trace_;
  const Folding folding_;
  const Bytes packet_;  // 0: a transfer keeps a link until it has passed
  const bool turns_;    // writes take more of HBM's ports than reads
  bool steps_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> bookings_;  // by link: how many of its visits are booked
  std::unique_ptr<UseOverTime> use_;
  WorkLog* work_ = nullptr;                         // null: it is not kept
  MachineFaults* faults_ = nullptr;                 // null: no link has any
  std::vector<std::unique_ptr<Meeting>> meetings_;  // by link; null where none has been
  std::deque<Transfer> transfers_;                  // addresses stay
  Transfer* free_transfer_ = nullptr;
  std::vector<Transfer*> arrived_;       // at this moment, from other SIPs
  std::vector<Transfer*> handed_over_;   // the former, while they are; kept for its memory
  const Transfer* delivered_ = nullptr;  // the one delivered last, still as it was
  std::size_t longest_way_ = 0;          // hops of the longest path, and one
  std::uint64_t next_number_ = 0;
  std::unordered_map<const Link*, std::vector<Visit*>> guides_;  // never iterated
  std::deque<Visit> visits_;
  Visit* free_visit_ = nullptr;
  std::unordered_map<std::uint64_t, std::unique_ptr<const Path>> paths_;  // never iterated
};

}  // namespace kernbench::sim
