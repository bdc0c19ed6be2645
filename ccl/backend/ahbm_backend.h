// The backend `ahbm`: every collective is a kernel over IPCQ on the ranks' devices.  A rank is a
// SIP, or, with world_size in ccl.yaml, a PE, and a single driver calls for all of them (ADR-0024).

#pragma once

#include <memory>
#include <vector>

#include "ccl/backend/ahbm_registration.h"
#include "ccl/backend/communicator.h"
#include "ccl/backend/kernel_launcher.h"
#include "ccl/core/config.h"
#include "runtime/distributed/backend.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::ccl {

class AhbmBackend : public distributed::Backend {
 public:
  // Makes the queues.  Throws as KernelLauncher does.
  AhbmBackend(RuntimeContext& torch, const Config& config)
      : torch_(torch),
        launcher_(torch, config),
        cuts_(std::make_shared<CutCache>(torch.topology())),
        starts_(std::make_shared<JointStarts>(simulation_of(torch))) {}

  std::string_view name() const override { return "ahbm"; }
  bool runs_on_streams() const override { return true; }
  int world_size() const override { return launcher_.layout().world_size(); }
  int caller_count() const override {
    return launcher_.layout().is_rank_pe() ? 1 : launcher_.layout().world_size();
  }
  std::unique_ptr<distributed::Communicator> connect(const std::vector<int>& ranks,
                                                     std::string_view description) override;

  // Throws DeviceError KB-Q003 if kernels of the user's have left messages between SIPs.
  void close() override;

 private:
  RuntimeContext& torch_;
  const KernelLauncher launcher_;
  const std::shared_ptr<CutCache> cuts_;
  const std::shared_ptr<JointStarts> starts_;
  bool has_default_ = false;
};

}  // namespace kernbench::ccl
