// The events of commands ask the host's memory ahead for what they will touch (ADR-0231, ADR-0270).

#include <variant>

#include "sim_engine/base/prefetch.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/pe_scheduler.h"

namespace kernbench::sim {

namespace {

const IpcqChannel* find_channel(const Work& work) {
  return std::visit(
      [](const auto& of) -> const IpcqChannel* {
        if constexpr (requires { of.channel; }) return of.channel;
        return nullptr;
      },
      work);
}

const work::HbmAccess* find_hbm_access(const Work& work) {
  if (const auto* load = std::get_if<work::Load>(&work)) return load;
  return std::get_if<work::Store>(&work);
}

void prefetch_value(const Tile& tile) {
  if (tile) ask_for(tile->value.node(), sizeof(ValueNode));
}

}  // namespace

// nullptr: none, or one that is not known without a look-up.
const Path* PeScheduler::known_path(const Work& work) const {
  if (const auto* send = std::get_if<work::Send>(&work)) return &send->channel->data_path();
  if (const auto* copy = std::get_if<work::CopyTo>(&work)) return &copy->channel->copy_path();
  if (const auto* out = std::get_if<work::Receive>(&work)) return &out->channel->pop_path();
  const work::HbmAccess* const access = find_hbm_access(work);
  if (access == nullptr || !(access->buffer.home == location_)) return nullptr;
  return std::holds_alternative<work::Load>(work) ? own_load_path_ : own_store_path_;
}

void PeScheduler::prefetch_start(const Command& command, int stage) const {
  constexpr int kPath = 2;  // by then what names it has come
  if (stage == 0) {
    ask_for(&command, sizeof command);
    return ask_for(this, sizeof *this);
  }
  const work::HbmAccess* const access = find_hbm_access(command.work);
  if (stage == 1) {
    ask_for(command.issuer, CommandIssuer::kTouched);
    ask_for(find_channel(command.work), sizeof(IpcqChannel));
    ask_for(command.result.operator->(), sizeof(TileNode));
    ask_for(command.next_send, sizeof(Command));
  }
  if (access != nullptr) {
    services_.memory.prefetch(access->buffer.region, stage - 1);
    if (stage == 1) services_.accesses.prefetch(access->buffer.region);
    if (stage == 2) prefetch_value(command.result);
  }
  if (stage < kPath) return;
  const Path* const path = known_path(command.work);
  if (path != nullptr) services_.fabric.prefetch(*path, stage - kPath);
}

void PeScheduler::prefetch_end(const Command& command, int stage) const {
  if (stage == 0) {
    ask_for(&command, sizeof command);
    return ask_for(this, sizeof *this);
  }
  const IpcqChannel* const channel = find_channel(command.work);
  const work::HbmAccess* const access = find_hbm_access(command.work);
  if (stage == 1) {
    ask_for(command.issuer, CommandIssuer::kTouched);
    for (const Tile& operand : command.operands) {
      ask_for(operand.operator->(), sizeof(TileNode));
    }
    ask_for(command.result.operator->(), sizeof(TileNode));
    ask_for(channel, sizeof(IpcqChannel));
    if (access != nullptr) {
      services_.accesses.prefetch(access->id);
      services_.memory_order.prefetch(access->noted);
    }
  }
  if (stage == 2) {
    command.issuer->prefetch();
    for (const Tile& operand : command.operands) prefetch_value(operand);
    prefetch_value(command.result);
    if (command.result) ask_for(command.result->first_waiter, sizeof(Command));
  }
  if (access != nullptr && std::holds_alternative<work::Store>(command.work)) {
    services_.memory.prefetch(access->buffer.region, stage - 1);
  }
  if (channel != nullptr && stage >= 2) channel->prefetch(stage - 2);
}

}  // namespace kernbench::sim
