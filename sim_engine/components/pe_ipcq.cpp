#include "sim_engine/components/pe_ipcq.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kernbench::sim {

void PeIpcq::enter(Table& table, Port port, IpcqChannel* channel) {
  for (int index = end(port.direction); index < port.index; ++index) {
    holes_[port.direction].insert(index);
  }
  auto& channels = table[static_cast<std::size_t>(port.direction)];
  const auto index = static_cast<std::size_t>(port.index);
  if (index >= channels.size()) channels.resize(index + 1);
  queue_count_ += (channel != nullptr ? 1 : 0) - (channels[index] != nullptr ? 1 : 0);
  channels[index] = channel;
  if (out(port) == nullptr && in(port) == nullptr) {
    holes_[port.direction].insert(port.index);
  } else if (const auto holes = holes_.find(port.direction); holes != holes_.end()) {
    holes->second.erase(port.index);
  }
}

void PeIpcq::connect_in(Port port, IpcqChannel* channel) {
  enter(in_, port, channel);
  if (channel != nullptr) channel->set_receiver(*this);
}

Port PeIpcq::unused_port(Direction direction) const {
  const auto holes = holes_.find(direction);
  const bool has_none = holes == holes_.end() || holes->second.empty();
  return {direction, has_none ? end(direction) : *holes->second.begin()};
}

int PeIpcq::end(Direction direction) const {
  const auto index = static_cast<std::size_t>(direction);
  return static_cast<int>(std::max(out_[index].size(), in_[index].size()));
}

std::vector<IpcqChannel*> PeIpcq::list_channels(const Table& table) {
  std::vector<IpcqChannel*> all;
  for (const auto& channels : table) {
    std::ranges::copy_if(channels, std::back_inserter(all),
                         [](const IpcqChannel* channel) { return channel != nullptr; });
  }
  return all;
}

namespace {

// A message has come for the post, whose `issued` or the message was last.
void note_cause(IpcqPost& post, Engine& engine, std::uint32_t pe) {
  CauseLog* const causes = engine.causes();
  if (causes == nullptr) return;
  const CauseLog::Id last = post.issued >= engine.now() ? post.cause : causes->current();
  post.cause = causes->add(last, post.seen, Cause::poll, pe);
}

}  // namespace

// True if the message is what its post expects; the post's tile then receives the value.
bool PeIpcq::accept(const IpcqChannel& channel, IpcqPost& post, const Tile& tile,
                    IpcqMessage& message, bool in_slot) {
  Engine& engine = scheduler_.services().engine;
  post.seen = channel.params().noticed(post.issued, engine.now());
  note_cause(post, engine, scheduler_.number());
  if (message.dtype != tile->dtype || message.bytes != tile->bytes ||
      !share_messages(message.operation, post.issuer->operation())) {
    message.value = {};
    post.refused = std::make_unique<IpcqMessage>(std::move(message));
    post.state = IpcqPost::State::refused;
    return false;
  }
  post.issuer->accepted(message, channel.ends().in_one_sip(), in_slot);
  post.state = IpcqPost::State::arrived;
  tile->value = std::move(message.value);
  return true;
}

void PeIpcq::receive(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) {
  ReceiveIssuer& issuer = *post.issuer;
  const Tile tile = std::exchange(post.tile, {});
  if (accept(channel, post, tile, message, true)) {
    take_out(channel, post, tile, message.arrow);
  } else {
    channel.release_slot();
  }
  if (std::exchange(post.wakes, false)) issuer.wake_from_post();
}

void PeIpcq::receive_in_place(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) {
  ReceiveIssuer& issuer = *post.issuer;
  const Tile tile = std::exchange(post.tile, {});
  if (accept(channel, post, tile, message, false)) {
    Command command;  // that takes no time
    command.work = work::Receive{{&channel, message.arrow}};
    command.started = scheduler_.services().engine.now();
    command.result = tile;
    scheduler_.finish_receive_in_place(command);
  }
  if (std::exchange(post.wakes, false)) issuer.wake_from_post();
}

// Issues the command that empties a slot, without the PE_CPU.
void PeIpcq::take_out(IpcqChannel& channel, IpcqPost& post, const Tile& tile, std::uint32_t arrow) {
  Command& command = scheduler_.services().commands.make();
  command.work = work::Receive{{&channel, arrow}};
  command.issuer = post.issuer;
  command.issued = post.seen;
  command.cause = post.cause;
  command.result = tile;
  command.bytes = tile->bytes;
  scheduler_.issue(command);
}

}  // namespace kernbench::sim
