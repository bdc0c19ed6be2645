#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

#include "runtime/simulation/gate.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/held_memory.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/context_members.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/hbm_allocator.h"

namespace kernbench {

int AhbmNamespace::checked(std::optional<int> device) const {
  if (!device) return current_device();
  if (*device < 0 || *device >= device_count()) {
    throw CollectiveError("KB-R003", "invalid device ordinal {}: there are devices 0 to {}",
                          *device, device_count() - 1);
  }
  return *device;
}

void AhbmNamespace::set_device(int device) {
  runtime::check_outside_kernels(*simulation_, "torch.ahbm.set_device");
  simulation_->local().device = checked(device);
}

namespace {

sim::HbmAllocator& present_memory(runtime::Simulation& simulation, int device) {
  runtime::free_unheld_space(simulation, device);
  return simulation.allocator(device);
}

}  // namespace

Bytes AhbmNamespace::memory_allocated(std::optional<int> device) const {
  return present_memory(*simulation_, checked(device)).allocated();
}
Bytes AhbmNamespace::max_memory_allocated(std::optional<int> device) const {
  return simulation_->allocator(checked(device)).peak();
}
void AhbmNamespace::reset_peak_memory_stats(std::optional<int> device) const {
  present_memory(*simulation_, checked(device)).reset_peak();
}

ahbm::MemoryStats AhbmNamespace::memory_stats(std::optional<int> device) const {
  const sim::HbmAllocator& hbm = present_memory(*simulation_, checked(device));
  return {hbm.by_kind(), hbm.peak_by_kind()};
}

void AhbmNamespace::record_memory_history() const {
  simulation_->keep_run_log();
  runtime::log_held_memory(*simulation_);
}

ahbm::MemorySnapshot AhbmNamespace::peak_memory_snapshot(std::optional<int> device) const {
  const int sip = checked(device);
  if (simulation_->run_log() == nullptr) {
    throw CollectiveError("KB-A032",
                          "torch.ahbm.peak_memory_snapshot: no history of memory is kept: call "
                          "torch.ahbm.record_memory_history() before the tensors are made, or give "
                          "RuntimeOptions{{.profile = true}}");
  }
  ahbm::MemorySnapshot snapshot;
  Bytes queues = present_memory(*simulation_, sip).peak_by_kind()[MemoryKind::communication];
  for (const runtime::RunTensor& tensor : runtime::held_at_peak(*simulation_, sip)) {
    snapshot.at = std::max(snapshot.at, tensor.made);
    snapshot.blocks.push_back({tensor.name, tensor.kind, tensor.module, tensor.bytes});
    if (tensor.kind == MemoryKind::communication) queues -= tensor.bytes;
  }
  if (queues > 0) {
    snapshot.blocks.push_back({runtime::kQueues, MemoryKind::communication, {}, queues});
  }
  return snapshot;
}

std::pair<Bytes, Bytes> AhbmNamespace::mem_get_info(std::optional<int> device) const {
  const sim::HbmAllocator& hbm = present_memory(*simulation_, checked(device));
  return {hbm.capacity() - hbm.allocated(), hbm.capacity()};
}

std::string AhbmNamespace::get_device_name(std::optional<int> device) const {
  return fmt::format("ahbm SIP {}", checked(device));
}
ahbm::DeviceProperties AhbmNamespace::get_device_properties(std::optional<int> device) const {
  const DPPolicy all;
  const Topology& topology = simulation_->topology();
  return {get_device_name(device), mem_get_info(device).second,
          all.cube_holders(topology) * all.pe_holders(topology)};
}

namespace {

constexpr std::size_t kMostRows = 20;

using Row = std::pair<std::string, Bytes>;

// A line for each of the largest rows; of equal ones in order of names.
std::string format_rows(std::vector<Row> rows) {
  std::ranges::stable_sort(rows, std::ranges::greater{}, &Row::second);
  std::string text;
  for (const auto& [what, bytes] : rows | std::views::take(kMostRows)) {
    text += fmt::format("\n  {} B: {}", bytes, what);
  }
  return text;
}

std::string format_kinds(const MemoryByKind& kinds) {
  std::vector<Row> rows;
  for (const MemoryKind kind : kAllMemoryKinds) {
    if (kinds[kind] > 0) rows.emplace_back(name_of(kind), kinds[kind]);
  }
  return format_rows(std::move(rows));
}

std::string format_modules(const ahbm::MemorySnapshot& snapshot) {
  std::map<std::string, Bytes> rows;
  for (const ahbm::MemoryBlock& block : snapshot.blocks) {
    rows[fmt::format("{} {}", block.module.empty() ? "-" : block.module, name_of(block.kind))] +=
        block.bytes;
  }
  return format_rows({rows.begin(), rows.end()});
}

}  // namespace

std::string AhbmNamespace::memory_summary(std::optional<int> device) const {
  const int sip = checked(device);
  const sim::HbmAllocator& hbm = present_memory(*simulation_, sip);
  std::string text = fmt::format("sip{}: {} B of {} B HBM are allocated, at most {} B were{}", sip,
                                 hbm.allocated(), hbm.capacity(), hbm.peak(),
                                 runtime::holders_of_device(*simulation_, sip, kMostRows));
  if (hbm.peak() > 0) text += "\nthe most, by kind:" + format_kinds(hbm.peak_by_kind());
  if (simulation_->run_log() == nullptr) return text;
  return text + "\nthe most, by module and kind:" + format_modules(peak_memory_snapshot(sip));
}

int AhbmNamespace::current_device() const {
  return simulation_->local().device;
}

int AhbmNamespace::device_count() const {
  return simulation_->machine().topology().system.sip_count;
}

ahbm::Stream AhbmNamespace::Stream(std::optional<int> device) const {
  return {simulation_, runtime::make_stream(*simulation_, checked(device))};
}

ahbm::Event AhbmNamespace::Event(const ahbm::EventOptions& options) const {
  return ahbm::Event(simulation_, options);
}

ahbm::Stream AhbmNamespace::current_stream(std::optional<int> device) const {
  return {simulation_, runtime::shared_current_stream(*simulation_, checked(device))};
}

ahbm::Stream AhbmNamespace::default_stream(std::optional<int> device) const {
  return {simulation_, runtime::default_stream(*simulation_, checked(device))};
}

ahbm::StreamContext AhbmNamespace::stream(const ahbm::Stream& stream) const {
  stream.check_belongs_to(*simulation_, "torch.ahbm.stream");
  return ahbm::StreamContext(stream);
}

void AhbmNamespace::set_stream(const ahbm::Stream& stream) const {
  stream.check_belongs_to(*simulation_, "torch.ahbm.set_stream");
  stream.make_current();
}

void AhbmNamespace::synchronize(std::optional<int> device) const {
  runtime::check_outside_kernels(*simulation_, "torch.ahbm.synchronize");
  runtime::synchronize(*simulation_, checked(device));
}

}  // namespace kernbench
