// What faults do to a PE's commands.

#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/machine_faults.h"
#include "sim_engine/components/pe_scheduler.h"

namespace kernbench::sim {

// The time of an operation that takes `alone` without faults, and begins at `start`.
Time PeScheduler::slowed_down(const Command& command, Time start, Time alone) {
  return services_.faults->computing_time(location_, command.is_of_collective, start, alone);
}

// Lets faults have their way with a message; returns false if it is lost.
bool PeScheduler::arrives(const IpcqChannel& channel, IpcqMessage& message) {
  if (services_.faults == nullptr) [[likely]]
    return true;
  return services_.faults->deliver(channel.ends().from, channel.ends().to, message,
                                   services_.engine.now(), services_.memory);
}

Value PeScheduler::value_to_store(const Command& command) {
  const Value& value = command.operands[0]->value;
  if (services_.faults == nullptr || command.is_of_collective) [[likely]]
    return value;
  return services_.faults->stored(location_, value, services_.engine.now(), services_.memory);
}

}  // namespace kernbench::sim
