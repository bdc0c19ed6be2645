// torch.ahbm and torch.accelerator: they select the device on which the caller's tensors are made.

#pragma once

namespace kernbench {

namespace runtime {
class Simulation;
}

// torch.ahbm, modelled on torch.cuda: the device (SIP) of each rank.
class AhbmNamespace {
 public:
  explicit AhbmNamespace(runtime::Simulation& simulation) : simulation_(simulation) {}

  // Throws CollectiveError KB-R003 if there is no such device.
  void set_device(int device);

  // The caller's device; 0 before set_device().
  int current_device() const;
  int device_count() const;

 private:
  runtime::Simulation& simulation_;
};

// torch.accelerator: PyTorch's device-neutral names for torch.ahbm.
class AcceleratorNamespace {
 public:
  explicit AcceleratorNamespace(AhbmNamespace& ahbm) : ahbm_(ahbm) {}

  void set_device_index(int device) { ahbm_.set_device(device); }
  int current_device_index() const { return ahbm_.current_device(); }
  int device_count() const { return ahbm_.device_count(); }

 private:
  AhbmNamespace& ahbm_;
};

}  // namespace kernbench
