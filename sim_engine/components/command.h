// A command is what a kernel asks its PE to do.  Commands are issued in order and run when their
// operands are ready and their unit is free.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/hbm_access.h"
#include "sim_engine/components/math_timing.h"
#include "sim_engine/components/operation.h"
#include "sim_engine/components/tile.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/core/cause_log.h"
#include "sim_engine/core/event_queue.h"
#include "sim_engine/values/access_tracker.h"
#include "sim_engine/values/compute_ops.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"

namespace kernbench::sim {

class IpcqChannel;
struct Command;

// A CommandIssuer issues commands: it is a kernel, or a composite command for its parts.
class CommandIssuer {
 public:
  // The command has taken effect, its result is ready, and it holds no tile any more.
  virtual void completed(const Command& command) = 0;
  // Where its commands' waits are added up.
  virtual Waits& waits() = 0;

 protected:
  ~CommandIssuer() = default;
};

// Each kind of command has a struct of its own with what its unit needs.
namespace work {

// A block of a matrix of which a load moves rows that values choose.
struct ChosenBlock : HbmPart {
  Value value;                                 // of all its elements, bound when the load begins
  AccessId id{};                               // while it is under way
  AccessIndex::Id noted = AccessIndex::kNone;  // by MemoryOrder
};
struct Load : HbmAccess {
  bool is_shared = false;  // comes by way of SharedTiles
  Time asked{0};           // when a shared one was asked for
  Bytes from_hbm = 0;      // of a shared one: what HBM gave because of this load
  // The blocks that rows are chosen from, if values choose them; `command.bytes` is what moves.
  std::vector<ChosenBlock> blocks = {};
};
struct Store : HbmAccess {};
struct Math {
  std::int64_t cycles = 0;
  std::string_view operation;  // for a trace
  std::int64_t elements = 0;   // of the result
  MathPasses passes = {};
  std::int64_t lane_operations = 0;  // only if the machine counts them
};
struct Gemm {
  GemmSize size;
  Bytes added_to = 0;  // of what the product is added to
};
struct Composite {
  const CompositePlan* plan = nullptr;
  Event start;  // called when the command is dispatched
};
struct Message {
  IpcqChannel* channel = nullptr;
  std::uint32_t arrow = 0;  // the message's id in a trace
};
struct Outgoing : Message {
  std::uint32_t number = 0;  // the message's number in its queue
  Operation operation;       // that it belongs to
};
struct Send : Outgoing {};    // into a slot
struct CopyTo : Outgoing {};  // to where a posted receive wants it
struct Receive : Message {};  // out of a slot

}  // namespace work

using Work = std::variant<work::Load, work::Store, work::Math, work::Gemm, work::Composite,
                          work::Send, work::CopyTo, work::Receive>;

struct Command {
  Work work;
  CommandIssuer* issuer = nullptr;
  int missing_operands = 0;
  Time issued{0};        // when the PE_CPU had issued it
  CauseLog::Id cause{};  // of that moment, if it lies ahead
  Time started{0};       // when it reached its unit
  std::array<Tile, kMostOperands> operands;
  Tile result;    // ready when the command is done; null for a send, whose end nobody awaits
  Tile departed;  // ready when the command has reached its unit; null if nobody asks
  Command* next_send = nullptr;  // of the same queue, if it waits for this one to depart
  Bytes bytes = 0;
  bool is_of_collective = false;
  Command* next_free = nullptr;
};

// Recycles commands, so that nothing is allocated once enough exist.
class CommandPool {
 public:
  Command& make() {
    if (free_ == nullptr) return commands_.emplace_back();
    Command& command = *std::exchange(free_, free_->next_free);
    command.is_of_collective = false;
    return command;
  }
  // REQUIRES: it holds no tile
  void give_back(Command& command) { command.next_free = std::exchange(free_, &command); }

  static void let_go_of_tiles(Command& command) {
    for (Tile& operand : command.operands) operand.reset();
    command.result.reset();
    command.departed.reset();
  }

  // Takes all commands back, after a run that failed.
  void reset() {
    free_ = nullptr;
    for (Command& command : commands_) {
      command.missing_operands = 0;
      command.next_send = nullptr;
      let_go_of_tiles(command);
      give_back(command);
    }
  }

 private:
  std::deque<Command> commands_;  // addresses stay
  Command* free_ = nullptr;
};

}  // namespace kernbench::sim
