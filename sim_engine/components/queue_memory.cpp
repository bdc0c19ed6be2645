#include "sim_engine/components/queue_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/error.h"

namespace kernbench::sim {

namespace {

constexpr HbmUse kQueue{HbmUse::Holder::queue, MemoryKind::communication};

Bytes size_of_slots(const IpcqParams& params) {
  return params.depth * params.slot_bytes;
}

// "a queue of 4 slots of 1000 B needs 4000 B"
std::string need(const IpcqParams& params) {
  return fmt::format("a queue of {} slots of {} B needs {} B", params.depth, params.slot_bytes,
                     size_of_slots(params));
}

}  // namespace

QueueMemory::QueueMemory(const Topology& topology, std::span<HbmAllocator> hbm)
    : topology_(topology),
      hbm_(hbm),
      sram_(static_cast<std::size_t>(topology.system.sip_count * topology.cube_count())) {}

void QueueMemory::take(ProcessingElement& receiver, const IpcqParams& params) {
  if (params.slot_bytes == 0) return;
  switch (params.buffer_kind) {
    case BufferKind::tcm:
      return take_tcm(receiver, params);
    case BufferKind::sram:
      return take_sram(receiver.location(), params);
    case BufferKind::hbm:
      return take_hbm(receiver.location(), params);
  }
}

void QueueMemory::take_tcm(ProcessingElement& receiver, const IpcqParams& params) {
  const Bytes bytes = size_of_slots(params);
  const Bytes free = receiver.scratch_capacity() - receiver.scratch_in_use();
  if (bytes > free) {
    throw DeviceError("KB-M010",
                      "out of TCM on {}: {}, {} B are free; use fewer or smaller slots, or "
                      "buffer_kind sram or hbm",
                      to_string(receiver.location()), need(params), free);
  }
  receiver.set_queue_bytes(topology_.pe.tcm.capacity - receiver.scratch_capacity() + bytes);
  tcm_receivers_.push_back(&receiver);
}

Bytes& QueueMemory::sram_at(const PeLocation& receiver) {
  return sram_[static_cast<std::size_t>(receiver.sip * topology_.cube_count() + receiver.cube)];
}

bool QueueMemory::reserve_sram(const PeLocation& receiver, Bytes bytes) {
  Bytes& held = sram_at(receiver);
  if (bytes > topology_.cube.sram.capacity - held) return false;
  held += bytes;
  return true;
}

void QueueMemory::take_sram(const PeLocation& receiver, const IpcqParams& params) {
  Bytes& held = sram_at(receiver);
  const Bytes capacity = topology_.cube.sram.capacity;
  if (size_of_slots(params) > capacity - held) {
    throw DeviceError("KB-M010",
                      "out of SRAM on sip{}.cube{}: {}, {} B of {} B are free and other queues "
                      "hold the rest; use fewer or smaller slots, or buffer_kind tcm or hbm",
                      receiver.sip, receiver.cube, need(params), capacity - held, capacity);
  }
  held += size_of_slots(params);
}

void QueueMemory::take_hbm(const PeLocation& receiver, const IpcqParams& params) {
  const Bytes bytes = size_of_slots(params);
  const Bytes address = hbm_[static_cast<std::size_t>(receiver.sip)].allocate(
      receiver.cube, receiver.pe, bytes, kQueue);
  blocks_.push_back({receiver.sip, address, bytes});
}

void QueueMemory::give_back_all() {
  for (ProcessingElement* receiver : tcm_receivers_) receiver->set_queue_bytes(0);
  tcm_receivers_.clear();
  std::ranges::fill(sram_, Bytes{0});
  for (const HbmBlock& block : blocks_) {
    hbm_[static_cast<std::size_t>(block.sip)].free(block.address, block.bytes, kQueue);
  }
  blocks_.clear();
}

}  // namespace kernbench::sim
