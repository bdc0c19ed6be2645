#include "runtime/tensor/memory_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/stream/rank_streams.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/hbm_allocator.h"

namespace kernbench::runtime {

namespace {

constexpr std::size_t kMostHolders = 5;  // names that an error lists

sim::HbmUse use_of(const TensorMemory& memory, std::uint64_t event) {
  return {.kind = memory.kind, .event = event};
}

Bytes allocate_or_explain(const Tensor::Storage& storage, const sim::DeviceBuffer& buffer) {
  const sim::PeLocation& home = buffer.home;
  const TensorMemory& memory = *storage.memory;
  try {
    return storage.simulation->allocator(home.sip).allocate(home.cube, home.pe, buffer.bytes(),
                                                            use_of(memory, memory.made));
  } catch (const DeviceError& error) {
    const auto text = std::string_view(error.what()).substr(error.code().size() + 3);  // "[...] "
    const std::string holders = holders_of_slice(*storage.simulation, home, kMostHolders);
    throw DeviceError(error.code(), fmt::format("{}, for tensor '{}' {} {}{}{}", text, storage.name,
                                                to_string(storage.shape), name_of(storage.dtype),
                                                holders.empty() ? "" : "; who holds it:", holders));
  }
}

// Allocates all blocks of a tensor's memory, by one event, and returns their addresses.  A block
// that is refused leaves nothing behind, neither others of the tensor nor their part in the peak.
std::vector<Bytes> allocate_at_once(const Tensor::Storage& first) {
  TensorMemory& memory = *first.memory;
  memory.made = memory.listed.next_event();
  std::map<int, sim::HbmAllocator::Sums> before;  // by SIP
  std::vector<Bytes> addresses;
  try {
    for (const sim::DeviceBuffer& buffer : memory.buffers) {
      before.try_emplace(buffer.home.sip, first.simulation->allocator(buffer.home.sip).sums());
      addresses.push_back(allocate_or_explain(first, buffer));
    }
  } catch (...) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const sim::DeviceBuffer& buffer = memory.buffers[i];
      first.simulation->allocator(buffer.home.sip)
          .free(addresses[i], buffer.bytes(), use_of(memory, memory.made));
    }
    for (const auto& [sip, sums] : before) first.simulation->allocator(sip).set_sums(sums);
    throw;
  }
  return addresses;
}

// Does the same, but waits for queued launches before it throws DeviceError KB-M010, since they
// keep memory that the host has given up.  Frees meanwhile come before the second attempt, which
// therefore is an event of its own.
std::vector<Bytes> allocate_blocks(const Tensor::Storage& first) {
  if (first.simulation->queues_launches()) {
    try {
      return allocate_at_once(first);
    } catch (const DeviceError& error) {
      if (error.code() != "KB-M010") throw;
    }
    synchronize(*first.simulation);
  }
  return allocate_at_once(first);
}

}  // namespace

void log_space(const Tensor::Storage& storage) {
  RunLog* const log = storage.simulation->run_log();
  if (log == nullptr) return;
  TensorMemory& memory = *storage.memory;
  Bytes bytes = 0;
  for (const sim::DeviceBuffer& buffer : memory.buffers) {
    bytes += sim::HbmAllocator::block_bytes(buffer.bytes());
  }
  // A tensor that is placed again, as fully_shard's parameters are, stays with its module.
  const RunTensor* const before = log->find_tensor(memory.logged);
  const std::string module =
      before == nullptr ? log->module_of(storage.simulation->local().rank).path : before->module;
  memory.logged = log->add(RunTensor{.device = storage.device,
                                     .name = storage.name,
                                     .bytes = bytes,
                                     .kind = memory.kind,
                                     .module = module,
                                     .made = storage.simulation->now(),
                                     .made_by = memory.made});
}

bool has_own_space(const TensorMemory& memory) {
  return memory.has_space && memory.place_of == nullptr;
}

void free_space(TensorMemory& memory) {
  KB_CHECK(has_own_space(memory), "a memory without a place was freed");
  const std::uint64_t event = memory.listed.next_event();
  if (memory.logged != RunLog::kNone) {
    memory.simulation->run_log()->tensor_freed(memory.logged, memory.simulation->now(), event);
  }
  for (const sim::DeviceBuffer& buffer : memory.buffers) {
    memory.simulation->allocator(buffer.home.sip)
        .free(buffer.address, buffer.bytes(), use_of(memory, event));
  }
  memory.has_space = false;
}

namespace {

struct QueuedMemories final : Attachment {
  void forget_ranks() override {}  // launches remove what they have added

  // Memories are listed by device, so that an allocation looks at those of its device alone.  A
  // tensor over several devices is in the list of its first one.
  const std::shared_ptr<TensorMemory::List>& of(int device) {
    std::shared_ptr<TensorMemory::List>& list = lists_[device];
    if (list == nullptr) list = std::make_shared<TensorMemory::List>();
    return list;
  }

 private:
  std::unordered_map<int, std::shared_ptr<TensorMemory::List>> lists_;
};

bool is_held_by_host(const TensorMemory& memory) {
  return memory.tensors.front()->memory.use_count() > std::ssize(memory.tensors) ||
         std::ranges::any_of(memory.tensors,
                             [](const auto* tensor) { return handles_of_host(*tensor) > 0; });
}

}  // namespace

void TensorMemory::begin_queued() {
  if (queued++ > 0) return;
  const auto& list = simulation->attachments().get<QueuedMemories>().of(tensors.front()->device);
  in_queue = Place{list, list->insert(list->end(), {this, tensors.front()})};
}

void TensorMemory::end_queued() {
  if (--queued > 0 || !in_queue) return;
  in_queue->list->erase(in_queue->at);
  in_queue.reset();
}

void free_unheld_space(Simulation& simulation, int device) {
  std::erase_if(*simulation.attachments().get<QueuedMemories>().of(device),
                [](const TensorMemory::Queued& queued) {
                  if (queued.first != nullptr && handles_of_host(*queued.first) > 0) return false;
                  TensorMemory* const memory = queued.memory;
                  if (!has_own_space(*memory) || is_held_by_host(*memory)) return false;
                  free_space(*memory);
                  memory->in_queue.reset();
                  return true;
                });
}

namespace {

void move_to(std::size_t index, Bytes address, TensorMemory& memory) {
  sim::DeviceBuffer& buffer = memory.buffers[index];
  const Bytes moved = address - buffer.address;
  buffer.address = address;
  const auto is_there = [&](const ShardInfo& shard) {
    return sim::PeLocation{shard.sip, shard.cube, shard.pe} == buffer.home;
  };
  for (Tensor::Storage* const tensor : memory.tensors) {
    auto shard = tensor->shards.begin() + static_cast<std::ptrdiff_t>(index);
    // A view may have fewer shards than its memory has buffers, so its shard is found by the PE.
    const bool has_all = tensor->shards.size() == memory.buffers.size();
    if (!has_all) shard = std::ranges::find_if(tensor->shards, is_there);
    if (shard != tensor->shards.end()) shard->address += moved;
    for (sim::DeviceBuffer& part : tensor->part) {
      if (part.home == buffer.home) part.address += moved;
    }
  }
}

}  // namespace

void take_space(TensorMemory& memory) {
  KB_CHECK(!memory.has_space && !memory.tensors.empty(), "a memory took a place twice");
  const Tensor::Storage& first = *memory.tensors.front();
  free_unheld_space(*memory.simulation, first.device);
  const std::vector<Bytes> addresses = allocate_blocks(first);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    move_to(i, addresses[i], memory);
  }
  memory.has_space = true;
  log_space(first);
}

void mark_memory(TensorMemory& memory, MemoryKind kind) {
  if (kind <= memory.kind) return;
  const MemoryKind before = std::exchange(memory.kind, kind);
  if (!has_own_space(memory)) return;
  for (const sim::DeviceBuffer& buffer : memory.buffers) {
    memory.simulation->allocator(buffer.home.sip)
        .change_kind(buffer.bytes(), memory.made, before, kind);
  }
  if (memory.logged == RunLog::kNone) return;
  memory.simulation->run_log()->find_tensor(memory.logged)->kind = kind;
}

void mark_memory(const Tensor& tensor, MemoryKind kind) {
  if (!tensor.is_host()) mark_memory(*tensor.storage()->memory, kind);
}

void mark_memory_beside(const Tensor& tensor, const Tensor& beside, MemoryKind kind) {
  mark_memory(tensor, kind);
  const TensorMemory& memory = *tensor.storage()->memory;
  RunLog* const log = memory.simulation->run_log();
  if (log == nullptr) return;
  RunTensor* const noted = log->find_tensor(memory.logged);
  const RunTensor* const owner = log->find_tensor(beside.storage()->memory->logged);
  if (noted != nullptr && owner != nullptr) noted->module = owner->module;
}

void mark_as_made_by_user(const Tensor& tensor) {
  TensorMemory& memory = *tensor.storage()->memory;
  if (!memory.simulation->local().makes) mark_memory(memory, MemoryKind::input);
}

MadeAs::MadeAs(Simulation& simulation, MemoryKind kind)
    : local_(simulation.local()), before_(std::exchange(local_.makes, kind)) {}

void check_has_space(const Tensor::Storage& storage, std::string_view user) {
  if (storage.is_host() || storage.memory->has_space || storage.memory->deferred != nullptr) return;
  throw CollectiveError("KB-A019",
                        "{}: tensor '{}' {} is sharded: fully_shard has freed its elements until "
                        "the module that has it is called, by its handle's operator(), or "
                        "unshard() of that module; parameters() gives this rank's shard",
                        user, storage.name, to_string(storage.shape));
}

PreservedVersion::PreservedVersion(TensorMemory& memory) : memory_(memory) {
  // Writes are numbered when they are issued, so all writes from now on are those of this object's
  // lifetime.
  if (memory_.uses == 0) memory_.restores.clear();  // all of those are done
  memory_.restores.emplace_back(memory_.simulation->last_write() + 1,
                                std::numeric_limits<std::uint64_t>::max());
}

PreservedVersion::~PreservedVersion() {
  memory_.restores.back().second = memory_.simulation->last_write();
}

}  // namespace kernbench::runtime
