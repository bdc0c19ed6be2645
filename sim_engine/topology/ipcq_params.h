// The parameters of a queue: where its slots lie, how many there are, and how its ends wait.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// The memory that holds a queue's slots.
enum class BufferKind : std::uint8_t { tcm, sram, hbm };
inline constexpr std::array kBufferKinds = {BufferKind::tcm, BufferKind::sram, BufferKind::hbm};
std::string_view name_of(BufferKind kind);

// How PE_IPCQ waits, for a credit or the news of a post on the sender's side and for a message on
// the receiver's: it is woken, or it looks every so often.
enum class WaitPolicy : std::uint8_t { sleep, poll };
inline constexpr std::array kWaitPolicies = {WaitPolicy::sleep, WaitPolicy::poll};
std::string_view name_of(WaitPolicy policy);

struct IpcqParams {
  static constexpr int kWhole = 1000;  // efficiency is in thousandths

  BufferKind buffer_kind = BufferKind::tcm;
  int depth = 4;                // slots
  Bytes slot_bytes = 16 << 10;  // capacity of a slot; 0: messages only go to posted receives
  WaitPolicy wait = WaitPolicy::sleep;
  Time poll_interval{100'000};  // REQUIRES: > 0
  // What the protocol adds to each message, and the share of the bytes on a link that are data.
  Time message_latency{0};
  int efficiency = kWhole;
  // The first message's number; any value gives the same simulated times and results.
  std::uint32_t first_number = 0;

  // The bytes that a message occupies on links.
  Bytes on_the_wire(Bytes bytes) const {
    return efficiency == kWhole ? bytes : (bytes * kWhole + efficiency - 1) / efficiency;
  }

  // When an end that has waited since `began` notices what arrived at `there`: at once (sleep), or
  // at the next of began, began + poll_interval, began + 2 poll_interval, ... (poll).
  Time noticed(Time began, Time there) const;
};

}  // namespace kernbench::sim
