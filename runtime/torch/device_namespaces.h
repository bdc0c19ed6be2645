// torch.ahbm and torch.accelerator: they select the device on which the caller's tensors are made.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/stream/stream.h"
#include "sim_engine/base/units.h"

namespace kernbench {

namespace runtime {
class Simulation;
}

// torch.ahbm, modelled on torch.cuda: the device (SIP) of each rank.
class AhbmNamespace {
 public:
  explicit AhbmNamespace(std::shared_ptr<runtime::Simulation> simulation)
      : simulation_(std::move(simulation)) {}

  // Throws CollectiveError KB-R003 if there is no such device.
  void set_device(int device);

  // The caller's device; 0 before set_device().
  int current_device() const;
  int device_count() const;

  // Makes a stream of the device, or of the current one.  Throws KB-R003 if there is no such
  // device.
  ahbm::Stream Stream(std::optional<int> device = std::nullopt) const;
  ahbm::Event Event(const ahbm::EventOptions& options = {}) const;
  ahbm::Stream current_stream(std::optional<int> device = std::nullopt) const;
  ahbm::Stream default_stream(std::optional<int> device = std::nullopt) const;
  void set_stream(const ahbm::Stream& stream) const;
  // `const auto guard = torch.ahbm.stream(s);` makes s the current stream in its scope.
  static ahbm::StreamContext stream(const ahbm::Stream& stream) {
    return ahbm::StreamContext(stream);
  }
  // Blocks the host until all that the caller has issued to the device, or to the current one, is
  // done: kernels and collectives.  Throws what one of them has failed with.
  void synchronize(std::optional<int> device = std::nullopt) const;

  // The bytes of a device's HBM that tensors and queues hold, in blocks of 256 B; the most that
  // they have held at a time, since the beginning or reset_peak_memory_stats().  Without a device
  // it is the caller's.  As in PyTorch a tensor's memory is free when its last handle is gone,
  // though launches that use it may still be queued, and nothing waits for the device.  Throw
  // CollectiveError KB-R003 if there is no such device.
  Bytes memory_allocated(std::optional<int> device = {}) const;
  Bytes max_memory_allocated(std::optional<int> device = {}) const;
  void reset_peak_memory_stats(std::optional<int> device = {}) const;
  // The same as text, with a line for each name of tensors that hold memory, the largest first.
  std::string memory_summary(std::optional<int> device = {}) const;

 private:
  int checked(std::optional<int> device) const;

  std::shared_ptr<runtime::Simulation> simulation_;
};

// torch.accelerator: PyTorch's device-neutral names for torch.ahbm.
class AcceleratorNamespace {
 public:
  explicit AcceleratorNamespace(AhbmNamespace& ahbm) : ahbm_(ahbm) {}

  void set_device_index(int device) { ahbm_.set_device(device); }
  int current_device_index() const { return ahbm_.current_device(); }
  int device_count() const { return ahbm_.device_count(); }
  ahbm::Stream current_stream(std::optional<int> device = std::nullopt) const {
    return ahbm_.current_stream(device);
  }
  void set_stream(const ahbm::Stream& stream) const { ahbm_.set_stream(stream); }
  void synchronize(std::optional<int> device = std::nullopt) const { ahbm_.synchronize(device); }

 private:
  AhbmNamespace& ahbm_;
};

}  // namespace kernbench
