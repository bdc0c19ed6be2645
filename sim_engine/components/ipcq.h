// PE-to-PE queues (IPCQ, ADR-0023).
//
// Models:      a ring buffer of `depth` slots at the receiver, in its TCM, its HBM or its cube's
//              SRAM; a sender that owns as many credits as there are free slots; data and metadata
//              that arrive together and become visible at once; receives that are posted, and whose
//              message PE_IPCQ takes out of its slot as soon as it is there; a credit that flies
//              back when the slot has been emptied; and messages that are copied straight to where
//              a posted receive wants them, without a slot, once the news of the post has come.
//              A kernel that waits is woken, or looks every poll_interval (IpcqParams).
// Not modeled: head and tail pointers, and looks at them, as memory traffic of their own.
// Timing:      a message takes the path into the buffer (Fabric), and the path out of it into the
//              receiver's TCM; a credit, or the news of a post, takes the latency of the way back
//              plus 16 bytes at its slowest link, and occupies no link (ADR-0033).  A message that
//              is copied takes the path from TCM to TCM.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim_engine/components/fabric.h"
#include "sim_engine/components/ipcq_ends.h"
#include "sim_engine/components/ipcq_message.h"
#include "sim_engine/components/ipcq_posts.h"
#include "sim_engine/components/tile.h"
#include "sim_engine/core/engine.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

class IpcqChannel;

// The PE_IPCQ at the end of queues.
class IpcqReceiver {
 public:
  // The message of a post is in its slot (receive) or in the post's tile (receive_in_place).
  // `post` must not be used afterwards.
  virtual void receive(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) = 0;
  virtual void receive_in_place(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) = 0;

 protected:
  ~IpcqReceiver() = default;
};

// One queue, from one PE to another.
//
// Its messages are numbered in the order of their sends, its posted receives in the order of their
// posts, and the n-th post takes the n-th message.  The tail is the number of the next send, the
// head that of the next post: what has arrived from the head on lies in slots.
class IpcqChannel {
 public:
  using Ends = IpcqEnds;

  // REQUIRES: params.depth > 0, params.poll_interval > 0
  IpcqChannel(Engine& engine, Fabric& fabric, const Ends& ends, const IpcqParams& params);

  const Ends& ends() const { return ends_; }
  const IpcqParams& params() const { return params_; }
  const Path& data_path() const;  // from the sender's TCM into the buffer
  const Path& pop_path() const;   // from the buffer into the receiver's TCM
  const Path& copy_path() const;  // from TCM to TCM
  Time credit_time() const;

  // "ipcq sip0.cube0.pe0 east -> sip1.cube0.pe0 west"
  std::string name() const;

  // The sender's side.

  // The time from which the sender has a credit: in the past if it has one now, in the future if
  // one is flying back.  nullopt if all slots are in use.
  std::optional<Time> next_credit() const;
  // The cause after which the sender noticed the next credit, or the next post, for the log of
  // causes.
  CauseLog::Id cause_of_credit(Time noticed) const;
  CauseLog::Id cause_of_post(Time noticed) const;
  // Takes a credit that has arrived by `clock`, the sender's own time, for the next message.
  // Returns the message's number.  Throws DeviceError KB-Q001 if there is no credit.
  std::uint32_t take_credit(Time clock);
  // Calls `event` once when a slot has been emptied, unless forget_sender() was called before.
  void wake_on_credit(const Event& event) { on_credit_ = event; }

  // The time from which the sender knows of the receive posted for its next message; nullopt if no
  // such receive is posted.
  std::optional<Time> next_post() const;
  // The next message is copied to where its post wants it.  Returns its number.
  // REQUIRES: next_post()
  std::uint32_t take_post();
  void wake_on_post(const Event& event) { on_post_ = event; }

  void forget_sender() { on_credit_ = on_post_ = {}; }

  // The send that was issued last, null once it has departed: sends of a queue depart in order.
  Command*& last_send() { return last_send_; }

  // The message is complete in its slot.  If a receive is posted for it, it is handed over.
  // Messages become visible in their order: one that has overtaken others waits for them. REQUIRES:
  // a credit was taken for it; it is not larger than a slot
  void deliver(std::uint32_t number, IpcqMessage message);

  // The message is complete where its post wants it.  REQUIRES: take_post() gave its number
  void deliver_in_place(std::uint32_t number, IpcqMessage message);

  // The receiver's side.

  // Messages that a receive is posted for go to `receiver`.
  void set_receiver(IpcqReceiver& receiver) { receiver_ = &receiver; }
  // Posts a receive for the next message that no earlier post takes; that message may have arrived
  // already.  Returns the post's number.  REQUIRES: a receiver is set
  // `cause` is that of `issued`, for the log of causes.
  std::uint32_t post(ReceiveIssuer& issuer, const Tile& tile, Time issued, CauseLog::Id cause = {});
  // REQUIRES: the post was made, and is not closed
  IpcqPost& posted(std::uint32_t number) { return *posts_.find(number); }
  void close_post(std::uint32_t number) { posts_.close(number); }
  int open_post_count() const { return posts_.count(); }
  int open_post_count(const ReceiveIssuer& issuer) const { return posts_.count(&issuer); }
  void withdraw_posts() { posts_.withdraw(tail_); }

  // Messages that nobody has posted a receive for, oldest first.  pop() takes one out; its slot is
  // in use until release_slot().
  int message_count() const { return message_count_; }
  const IpcqMessage& message(int index) const {
    return slot(posts_.next() + static_cast<std::uint32_t>(index));
  }
  IpcqMessage pop();  // DeviceError KB-Q002 if there is none
  void release_slot();

  // Credits that the sender has, or could collect now.
  int credits() const { return credits_ + returned_count(engine_.now()); }

  // Returns to the state after construction, after a run that failed.
  void reset();

 private:
  CauseLog::Id cause_of_return(CauseLog::Id cause, Time there, Time noticed) const;
  const IpcqMessage& slot(std::uint32_t number) const { return slots_[number & slot_mask_]; }
  IpcqMessage& slot(std::uint32_t number) { return slots_[number & slot_mask_]; }
  void show(std::uint32_t number, IpcqMessage message);
  void show_in_place(std::uint32_t number, IpcqMessage message);
  void show_early();
  void hand_over(std::uint32_t number, IpcqPost& post, IpcqMessage message);
  int returned_count(Time clock) const;
  void collect_credits(Time clock);
  void check_invariant() const;

  Engine& engine_;
  const Ends ends_;
  const IpcqParams params_;
  Fabric& fabric_;
  // Paths are looked up when they are first used: a group connects more queues than a plan uses,
  // and a plan's messages go through slots or straight to their posts.
  mutable const Path* data_path_ = nullptr;
  mutable const Path* pop_path_ = nullptr;
  mutable const Path* copy_path_ = nullptr;
  mutable std::optional<Time> credit_time_;
  std::uint32_t tail_;  // free-running, like the posts' numbers
  int credits_;
  int on_the_way_ = 0;     // messages sent, not yet delivered
  int message_count_ = 0;  // delivered, and no post has taken them
  int being_emptied_ = 0;  // slots whose message was taken, not yet released
  // The times at which the credits under way arrive, earliest first: a ring of credits_in_flight_
  // from first_return_.  Credits are collected when somebody asks.
  int credits_in_flight_ = 0;
  std::size_t first_return_ = 0;
  std::vector<Time> returns_;
  std::vector<CauseLog::Id> release_causes_;  // likewise, of their release; if causes are recorded
  // Message n lies in slot n modulo a power of two, so that the counters may wrap around.
  // There are none before a message has to wait for its post.
  std::vector<IpcqMessage> slots_;
  const std::uint32_t slot_mask_;
  struct Early {
    IpcqMessage message;
    bool in_place = false;
  };
  std::uint32_t next_to_show_;            // the number of the next message to become visible
  std::map<std::uint32_t, Early> early_;  // that have overtaken it; mostly none
  IpcqPosts posts_;
  IpcqReceiver* receiver_ = nullptr;
  Event on_credit_;
  Event on_post_;
  Command* last_send_ = nullptr;
};

}  // namespace kernbench::sim
