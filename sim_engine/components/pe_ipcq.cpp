#include "sim_engine/components/pe_ipcq.h"

#include <algorithm>
#include <iterator>

namespace kernbench::sim {

void PeIpcq::enter(Table& table, Port port, IpcqChannel* channel) {
  auto& channels = table[static_cast<std::size_t>(port.direction)];
  const auto index = static_cast<std::size_t>(port.index);
  if (index >= channels.size()) channels.resize(index + 1);
  channels[index] = channel;
}

Port PeIpcq::unused_port(Direction direction) const {
  Port port = direction;
  while (out(port) != nullptr || in(port) != nullptr) ++port.index;
  return port;
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
