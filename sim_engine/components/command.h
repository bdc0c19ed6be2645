// What a kernel asks its PE to do.  Commands are issued in order and run when their operands are
// ready and their unit is free.

#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "sim_engine/components/device_buffer.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/tile.h"
#include "sim_engine/values/access_tracker.h"
#include "sim_engine/values/element_range.h"
#include "sim_engine/values/gemm_size.h"

namespace kernbench::sim {

class Composite;
class KernelRun;

struct Command {
  enum class Kind : std::uint8_t { load, store, math, gemm, composite, send, copy_to, receive };

  Kind kind = Kind::load;
  KernelRun* run = nullptr;
  int missing_operands = 0;
  Time issued{0};   // when the PE_CPU had issued it
  Time started{0};  // when it reached its unit
  Tile a;           // operands
  Tile b;
  Tile c;       // gemm: the accumulator; null if there is none
  Tile result;  // ready when the command is done; without elements if it makes no value
  Bytes bytes = 0;

  // gemm
  GemmSize gemm;

  // load, store
  DeviceBuffer buffer;
  ElementRange elements;
  AccessId access{};

  // math
  std::int64_t cycles = 0;
  std::string_view operation;  // for a trace

  // kind composite: the composite itself; else the one that this command is a part of, or null
  Composite* composite = nullptr;

  // send, copy_to, receive
  IpcqChannel* channel = nullptr;
  std::uint32_t number = 0;  // the sent message's number in its queue
  std::uint32_t arrow = 0;   // the message's id in a trace
  Tile departed;             // send, copy_to, gemm: ready when it has reached its unit
};

// Recycles commands, so that nothing is allocated once enough exist.
class CommandPool {
 public:
  Command& make() {
    if (free_.empty()) free_.push_back(&commands_.emplace_back());
    Command& command = *free_.back();
    free_.pop_back();
    return command;
  }
  // Clears the fields that every kind relies on; whoever makes a command sets those of its kind.
  void give_back(Command& command) {
    command.missing_operands = 0;
    command.composite = nullptr;
    for (Tile* tile : {&command.a, &command.b, &command.c, &command.result, &command.departed}) {
      *tile = {};
    }
    free_.push_back(&command);
  }

  // Takes all commands back, after a run that failed.
  void reset() {
    free_.clear();
    for (Command& command : commands_) give_back(command);
  }

 private:
  std::deque<Command> commands_;  // addresses stay
  std::vector<Command*> free_;
};

}  // namespace kernbench::sim
