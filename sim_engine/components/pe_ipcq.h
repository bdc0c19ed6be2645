// PE_IPCQ: which queues a PE can reach, by port, and the receiving end of those that lead to it.
//
// Models:      the message of a posted receive is taken out of its slot as soon as it is there,
//              without the PE_CPU, by a command of PE_DMA.  A message that does not match its post
//              is refused: its slot is freed, and the kernel that posted is told.

#pragma once

#include <array>
#include <map>
#include <set>
#include <vector>

#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/pe_scheduler.h"
#include "sim_engine/topology/location.h"

namespace kernbench::sim {

class PeIpcq final : public IpcqReceiver {
 public:
  explicit PeIpcq(PeScheduler& scheduler) : scheduler_(scheduler) {}

  IpcqChannel* out(Port port) const { return find(out_, port); }  // nullptr: there is none
  IpcqChannel* in(Port port) const { return find(in_, port); }

  // REQUIRES: port.index >= 0
  void connect_out(Port port, IpcqChannel* channel) { enter(out_, port, channel); }
  void connect_in(Port port, IpcqChannel* channel);

  // The first port of a direction at which no queue ends or begins.
  Port unused_port(Direction direction) const;

  // The number of queues that begin or end here.
  int queue_count() const { return queue_count_; }

  // All queues that begin (outs) or end (ins) here, by direction and index.
  std::vector<IpcqChannel*> outs() const { return list_channels(out_); }
  std::vector<IpcqChannel*> ins() const { return list_channels(in_); }

  void receive(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) override;
  void receive_in_place(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) override;

 private:
  using Table = std::array<std::vector<IpcqChannel*>, kDirectionCount>;  // by direction, index

  static IpcqChannel* find(const Table& table, Port port) {
    const auto direction = static_cast<std::size_t>(port.direction);
    if (direction >= table.size()) return nullptr;  // no enumerator
    const auto& channels = table[direction];
    const auto index = static_cast<std::size_t>(port.index);  // a negative index becomes large
    return index < channels.size() ? channels[index] : nullptr;
  }
  void enter(Table& table, Port port, IpcqChannel* channel);
  int end(Direction direction) const;  // one above the highest index in use
  static std::vector<IpcqChannel*> list_channels(const Table& table);

  bool accept(const IpcqChannel& channel, IpcqPost& post, const Tile& tile, IpcqMessage& message,
              bool in_slot);
  void take_out(IpcqChannel& channel, IpcqPost& post, const Tile& tile, std::uint32_t arrow);

  PeScheduler& scheduler_;
  int queue_count_ = 0;
  Table out_;
  Table in_;
  std::map<Direction, std::set<int>> holes_;  // unused indices below end(); mostly none
};

}  // namespace kernbench::sim
