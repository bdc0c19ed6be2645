#include <fmt/format.h>

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

std::string AhbmNamespace::memory_summary(std::optional<int> device) const {
  constexpr std::size_t kMostNames = 20;
  const int sip = checked(device);
  const sim::HbmAllocator& hbm = present_memory(*simulation_, sip);
  return fmt::format("sip{}: {} B of {} B HBM are allocated, at most {} B were{}", sip,
                     hbm.allocated(), hbm.capacity(), hbm.peak(),
                     runtime::holders_of_device(*simulation_, sip, kMostNames));
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
