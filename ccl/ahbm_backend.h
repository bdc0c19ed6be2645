// The backend `ahbm`: every collective is a kernel over IPCQ on the ranks' devices.  rank = SIP.

#pragma once

#include <map>
#include <memory>
#include <string>

#include "ccl/config.h"
#include "runtime/context/runtime_context.h"

namespace kernbench::ccl {

class AhbmBackend : public distributed::Backend {
 public:
  // Installs the neighbour tables.
  AhbmBackend(RuntimeContext& torch, const Config& config);
  ~AhbmBackend() override;

  std::string_view name() const override { return "ahbm"; }
  int world_size() const override { return torch_.topology().system.sip_count; }

  void all_reduce(const distributed::CollectiveCall& call, Tensor& x, ReduceOp op) override;

  // An all_reduce of one element, as NCCL does it.
  void barrier(const distributed::CollectiveCall& call) override;

 private:
  // A collective that not all ranks have finished.
  struct UnderWay {
    Time first_start{0};
    int finished = 0;
  };

  KernelArgs arguments(const distributed::CollectiveCall& call, const Tensor& x,
                       const sim::PeLocation& pe) const;
  void finish(const distributed::CollectiveCall& call, Bytes bytes);

  RuntimeContext& torch_;
  const Config config_;
  const sim::IpcqParams ipcq_;
  std::map<std::uint64_t, UnderWay> under_way_;  // by operation
};

// Makes init_process_group("ahbm") work.  The umbrella header calls it.
bool register_ahbm_backend();

}  // namespace kernbench::ccl
