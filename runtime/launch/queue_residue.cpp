#include "runtime/launch/queue_residue.h"

#include <fmt/format.h>

#include "sim_engine/components/ipcq.h"

namespace kernbench::runtime {

namespace {

constexpr int kMostQueues = 8;

// The messages that were left in one queue.
struct Residue {
  int count = 0;
  Bytes bytes = 0;
  Time sent{0};  // send time of the oldest
};

// Messages that lie in front of the operation's are dropped too: nobody can receive them any more.
Residue drop(sim::IpcqChannel& channel, const std::optional<sim::Operation>& operation) {
  Residue residue;
  int last = -1;
  for (int i = 0; i < channel.message_count(); ++i) {
    const sim::IpcqMessage& message = channel.message(i);
    if (operation && message.operation != *operation) continue;
    if (residue.count++ == 0) residue.sent = message.sent;
    residue.bytes += message.bytes;
    last = i;
  }
  for (int i = 0; i <= last; ++i) {
    channel.pop();
    channel.release_slot();
  }
  return residue;
}

std::string messages(int count) {
  return fmt::format("{} message{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::optional<DeviceError> take_residue(sim::Machine& machine, QueueScope scope,
                                        const std::optional<sim::Operation>& operation,
                                        std::string_view who) {
  std::string lines;
  int queues = 0;
  int count = 0;
  for (sim::IpcqChannel& channel : machine.channels()) {
    if (scope == QueueScope::in_one_sip && !channel.ends().in_one_sip()) continue;
    const Residue residue = drop(channel, operation);
    if (residue.count == 0) continue;
    count += residue.count;
    if (++queues > kMostQueues) continue;
    lines += fmt::format("\n  {} ({} B, sent at {}) in {}", messages(residue.count), residue.bytes,
                         to_string(residue.sent), channel.name());
  }
  if (count == 0) return std::nullopt;
  if (queues > kMostQueues) lines += fmt::format("\n  and in {} more queues", queues - kMostQueues);
  return DeviceError("KB-Q003",
                     fmt::format("{} has ended and left {} that nobody received; every tl.send "
                                 "needs its tl.recv{}",
                                 who, messages(count), lines));
}

}  // namespace kernbench::runtime
