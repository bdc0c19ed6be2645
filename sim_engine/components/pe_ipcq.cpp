#include "sim_engine/components/pe_ipcq.h"

#include <algorithm>
#include <iterator>

namespace kernbench::sim {

void PeIpcq::enter(Table& table, Port port, IpcqChannel* channel) {
  std::set<int>& holes = holes_[static_cast<std::size_t>(port.direction)];
  for (int index = end(port.direction); index < port.index; ++index) holes.insert(index);
  auto& channels = table[static_cast<std::size_t>(port.direction)];
  const auto index = static_cast<std::size_t>(port.index);
  if (index >= channels.size()) channels.resize(index + 1);
  channels[index] = channel;
  if (out(port) == nullptr && in(port) == nullptr) {
    holes.insert(port.index);
  } else {
    holes.erase(port.index);
  }
}

Port PeIpcq::unused_port(Direction direction) const {
  const std::set<int>& holes = holes_[static_cast<std::size_t>(direction)];
  return {direction, holes.empty() ? end(direction) : *holes.begin()};
}

int PeIpcq::end(Direction direction) const {
  const auto index = static_cast<std::size_t>(direction);
  return static_cast<int>(std::max(out_[index].size(), in_[index].size()));
}

std::vector<IpcqChannel*> PeIpcq::all_of(const Table& table) {
  std::vector<IpcqChannel*> all;
  for (const auto& channels : table) {
    std::ranges::copy_if(channels, std::back_inserter(all),
                         [](const IpcqChannel* channel) { return channel != nullptr; });
  }
  return all;
}

}  // namespace kernbench::sim
