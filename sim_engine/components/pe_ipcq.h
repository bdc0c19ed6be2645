// The tables of one PE_IPCQ: which queues it can reach, by port.

#pragma once

#include <array>
#include <set>
#include <vector>

#include "sim_engine/topology/port.h"

namespace kernbench::sim {

class IpcqChannel;

class PeIpcq {
 public:
  IpcqChannel* out(Port port) const { return find(out_, port); }  // nullptr: there is none
  IpcqChannel* in(Port port) const { return find(in_, port); }

  // REQUIRES: port.index >= 0
  void connect_out(Port port, IpcqChannel* channel) { enter(out_, port, channel); }
  void connect_in(Port port, IpcqChannel* channel) { enter(in_, port, channel); }

  // The first port of a direction at which no queue ends or begins.
  Port unused_port(Direction direction) const;

  // All queues that begin (outs) or end (ins) here, by direction and index.
  std::vector<IpcqChannel*> outs() const { return all_of(out_); }
  std::vector<IpcqChannel*> ins() const { return all_of(in_); }

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
  static std::vector<IpcqChannel*> all_of(const Table& table);

  Table out_;
  Table in_;
  std::array<std::set<int>, kDirectionCount> holes_;  // unused indices below end()
};

}  // namespace kernbench::sim
