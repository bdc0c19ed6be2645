#include "runtime/tensor/held_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "runtime/simulation/simulation.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/components/hbm_allocator.h"
#include "sim_engine/components/routing.h"

namespace kernbench::runtime {

namespace {

struct ListedMemories final : Attachment {
  void forget_ranks() override {}  // a rank's tensors may outlive it

  const std::shared_ptr<ListedMemory::List> list = std::make_shared<ListedMemory::List>();
};

const std::shared_ptr<ListedMemory::List>& list_of(Simulation& simulation) {
  return simulation.attachments().get<ListedMemories>().list;
}

// The tensors of one name.
struct Holder {
  std::string what;
  Bytes bytes = 0;
  std::int64_t count = 0;
};

std::string holder_name(const TensorMemory& memory) {
  if (memory.tensors.empty()) return "a tensor whose last handle is gone, in use";
  return fmt::format("'{}'", memory.tensors.front()->name);
}

// Returns the holders of what `is_meant` says, the largest first; of equal ones in order of names.
std::vector<Holder> holders(Simulation& simulation,
                            const std::function<bool(const sim::PeLocation&)>& is_meant) {
  std::map<std::string, Holder> by_name;
  for (const TensorMemory* memory : list_of(simulation)->memories) {
    // A snapshot takes no memory of the device.
    if (!has_own_space(*memory)) continue;
    Bytes bytes = 0;
    for (const sim::DeviceBuffer& buffer : memory->buffers) {
      if (is_meant(buffer.home)) bytes += sim::HbmAllocator::block_bytes(buffer.bytes());
    }
    if (bytes == 0) continue;
    Holder& holder = by_name[holder_name(*memory)];
    holder.bytes += bytes;
    ++holder.count;
  }
  std::vector<Holder> all;
  for (const auto& [name, holder] : by_name) all.push_back({name, holder.bytes, holder.count});
  std::ranges::stable_sort(all, std::ranges::greater{}, &Holder::bytes);
  return all;
}

std::string format_lines(const std::vector<Holder>& holders, std::size_t most) {
  std::string text;
  Bytes rest = 0;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const auto& [what, bytes, count] = holders[i];
    if (i >= most) {
      rest += bytes;
    } else if (count == 1) {
      text += fmt::format("\n  {} B: {}", bytes, what);
    } else {
      text += fmt::format("\n  {} B: {} times {}", bytes, count, what);
    }
  }
  if (rest > 0) text += fmt::format("\n  {} B: {} other names", rest, holders.size() - most);
  return text;
}

}  // namespace

ListedMemory::ListedMemory(const TensorMemory& memory)
    : list_(list_of(*memory.simulation)),
      place_(list_->memories.insert(list_->memories.end(), &memory)) {}

void log_held_memory(Simulation& simulation) {
  if (simulation.run_log() == nullptr) return;
  for (const TensorMemory* memory : list_of(simulation)->memories) {
    const bool is_to_log = memory->logged == RunLog::kNone && has_own_space(*memory);
    if (is_to_log && !memory->tensors.empty()) log_space(*memory->tensors.front());
  }
}

std::vector<RunTensor> held_at_peak(Simulation& simulation, int device) {
  const std::uint64_t peak = simulation.allocator(device).peak_event();
  std::vector<RunTensor> held;
  for (const RunTensor& tensor : simulation.run_log()->tensors()) {
    const bool is_held = tensor.made_by <= peak && tensor.freed_by > peak;
    if (tensor.device == device && is_held) held.push_back(tensor);
  }
  return held;
}

std::string holders_of_device(Simulation& simulation, int device, std::size_t most) {
  const auto held = holders(simulation, [device](const auto& pe) { return pe.sip == device; });
  Bytes queues = simulation.allocator(device).allocated();
  for (const Holder& holder : held) queues -= holder.bytes;
  std::string text = format_lines(held, most);
  if (queues > 0) text += fmt::format("\n  {} B: {}", queues, kQueues);
  return text;
}

std::string holders_of_slice(Simulation& simulation, const sim::PeLocation& pe, std::size_t most) {
  const auto slice = [&](const sim::PeLocation& at) {
    return sim::Routing::hbm_slice_of(simulation.topology(), at.pe);
  };
  const auto is_there = [&](const sim::PeLocation& at) {
    return at.sip == pe.sip && at.cube == pe.cube && slice(at) == slice(pe);
  };
  return format_lines(holders(simulation, is_there), most);
}

}  // namespace kernbench::runtime
