// What a queue is like: where its slots lie, how many there are, and how its ends wait.

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

struct IpcqParams {
  BufferKind buffer_kind = BufferKind::tcm;
  int depth = 4;                // slots
  Bytes slot_bytes = 16 << 10;  // capacity of one
  // Where the counters of its messages begin; any start gives the same times and values.
  std::uint32_t first_number = 0;
};

}  // namespace kernbench::sim
