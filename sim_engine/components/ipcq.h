// PE-to-PE queues (IPCQ).
//
// Models:      a ring buffer of `depth` slots at the receiver, in its TCM, its HBM or its cube's
//              SRAM; a sender that owns as many credits as there are free slots; data and metadata
//              that arrive together and become visible at once; a credit that flies back when the
//              receiver has emptied the slot.
// Not modeled: head and tail pointers as memory traffic of their own.
// Timing:      a message takes the path into the buffer (Fabric); a credit takes the latency of the
//              way back plus 16 bytes at its slowest link, and occupies no link (ADR-0033).

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/components/fabric.h"
#include "sim_engine/components/location.h"
#include "sim_engine/components/port.h"
#include "sim_engine/components/tile.h"
#include "sim_engine/core/engine.h"
#include "sim_engine/data/value.h"

namespace kernbench::sim {

// The memory that holds a queue's slots.
enum class BufferKind : std::uint8_t { tcm, sram, hbm };
inline constexpr std::array kBufferKinds = {BufferKind::tcm, BufferKind::sram, BufferKind::hbm};
std::string_view name_of(BufferKind kind);

struct IpcqParams {
  BufferKind buffer_kind = BufferKind::tcm;
  int depth = 4;                // slots
  Bytes slot_bytes = 16 << 10;  // capacity of one
};

struct IpcqMessage {
  Value value;
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  Bytes bytes = 0;
  Time sent{0};
  std::uint64_t collective = 0;  // the operation that it belongs to; 0: a kernel of the user's
  std::uint32_t arrow = 0;       // joins its send and its receive in a trace
};

// One queue, from one PE to another.
class IpcqChannel {
 public:
  struct Ends {
    PeLocation from;
    Port out;  // the sender's name for the receiver
    PeLocation to;
    Port in;  // the receiver's name for the sender
  };

  // REQUIRES: params.depth > 0
  IpcqChannel(Engine& engine, Fabric& fabric, const Ends& ends, const IpcqParams& params);

  const Ends& ends() const { return ends_; }
  const IpcqParams& params() const { return params_; }
  const Path& data_path() const { return *data_path_; }
  const Path& pop_path() const { return *pop_path_; }

  // "ipcq sip0.cube0.pe0 east -> sip1.cube0.pe0 west"
  std::string name() const;

  // The sender's side.  A credit is taken before a message is sent.
  bool has_credit();
  void take_credit();  // DeviceError KB-Q001 without credit
  void wake_on_credit(const Event& event);
  void forget_sender() { on_credit_ = {}; }  // who waited for a credit waits no more

  // The send that was issued last, until it has departed: sends of one queue depart in order.
  Tile& last_departure() { return last_departure_; }

  // The message is complete in its slot.
  // REQUIRES: a credit was taken for it; it is not larger than a slot
  void deliver(IpcqMessage message);

  // The receiver's side.  pop() takes the oldest message; its slot is in use until release_slot().
  bool has_message() const { return message_count_ > 0; }
  const IpcqMessage& front() const { return slots_[head_]; }
  IpcqMessage pop();  // DeviceError KB-Q002 if empty
  void wake_on_message(const Event& event) { on_message_ = event; }
  void forget_receiver() { on_message_ = {}; }
  void release_slot();

  // That the sender has, or could collect now.
  int credits() const { return credits_ + returned_count(); }
  int message_count() const { return message_count_; }

  // Back to the state after installation: the end of a run that failed.
  void reset();

 private:
  int returned_count() const;
  void collect_credits();
  void schedule_credit_event();
  void credit_event();
  void check_invariant() const;

  Engine& engine_;
  const Ends ends_;
  const IpcqParams params_;
  const Path* const data_path_;  // from the sender's TCM into the buffer
  const Path* const pop_path_;   // from the buffer into the receiver's TCM
  const Time credit_time_;
  int credits_;
  int on_the_way_ = 0;     // messages sent, not yet delivered
  int being_emptied_ = 0;  // slots popped, not yet released
  // When the credits under way arrive, earliest first: a ring of credits_in_flight_ from
  // first_return_. They are collected when somebody asks; an event is made only for a sender that
  // waits.
  std::vector<Time> returns_;
  std::size_t first_return_ = 0;
  int credits_in_flight_ = 0;
  std::vector<IpcqMessage> slots_;  // a ring: message_count_ of them from head_ on
  std::size_t head_ = 0;
  int message_count_ = 0;
  Event on_credit_;
  Event on_message_;
  Tile last_departure_;
};

// Which channels a PE can reach, by port.
class PeIpcq {
 public:
  IpcqChannel* out(Port port) const { return find(out_, port); }  // nullptr: there is none
  IpcqChannel* in(Port port) const { return find(in_, port); }

  // REQUIRES: port.index >= 0
  void connect_out(Port port, IpcqChannel* channel) { enter(out_, port, channel); }
  void connect_in(Port port, IpcqChannel* channel) { enter(in_, port, channel); }

  // All there are, by direction and index.
  std::vector<IpcqChannel*> outs() const { return all_of(out_); }
  std::vector<IpcqChannel*> ins() const { return all_of(in_); }

 private:
  using Table = std::array<std::vector<IpcqChannel*>, kDirectionCount>;  // by direction, index

  static IpcqChannel* find(const Table& table, Port port) {
    const auto& channels = table[static_cast<std::size_t>(port.direction)];
    const auto index = static_cast<std::size_t>(port.index);  // a negative one is large
    return index < channels.size() ? channels[index] : nullptr;
  }
  static void enter(Table& table, Port port, IpcqChannel* channel);
  static std::vector<IpcqChannel*> all_of(const Table& table);

  Table out_;
  Table in_;
};

}  // namespace kernbench::sim
