// Launches an algorithm's kernel on the PEs that hold a tensor.  The backend uses it once the
// ranks agree; used alone, it is the direct-launch reference, without torch.distributed.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ccl/core/config.h"
#include "ccl/core/layout.h"
#include "ccl/steps/eager_slots.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::ccl {

class KernelLauncher {
 public:
  // Makes the launcher of all ranks and its queues.  Throws ConfigError KB-Y041 if world_size does
  // not fit the topology, KB-Y044 or DeviceError KB-M010 if the queues do not fit their memory, or
  // leave no scratch.
  KernelLauncher(RuntimeContext& torch, const Config& config);
  // Makes the launcher of a group of SIPs, given by group rank, beside that of all ranks.  Kernels
  // see the members as neighbours, over queues of their own, which stay until the queues of all
  // ranks go.  Throws likewise.
  KernelLauncher(const KernelLauncher& of_all, const std::vector<int>& sips);
  ~KernelLauncher();  // removes the queues
  KernelLauncher(const KernelLauncher&) = delete;
  KernelLauncher& operator=(const KernelLauncher&) = delete;

  const Config& config() const { return config_; }
  const Layout& layout() const { return layout_; }
  // The slots of small messages between any two PEs, which all groups share.
  const std::shared_ptr<EagerSlots>& eager() const { return eager_; }

  // Throws CollectiveError KB-C013 unless the algorithm can work on a tensor placed so.
  void check_placement(const Algorithm& algorithm, const Tensor& x) const;

  // Throws KB-C013 with rank = PE unless every participant has a shard of the same size.
  void check_pe_shards(const Tensor& x) const;

  // Runs the kernel and waits until it is done on all PEs that hold the tensors: one rank's, or,
  // for a single driver, those of all SIPs.  Partial tensors become replicated.  `operation` is
  // the number of the collective.  Returns what runtime::launch() returns.
  std::int64_t launch(const Algorithm& algorithm, std::span<const Tensor> tensors,
                      std::uint64_t operation) const;
  // Called when the collective is over on all ranks; `open_messages` is the sum of launch()'s
  // results.
  // Throws DeviceError KB-Q003 if messages are left, which are then dropped.
  void check_queues(const Algorithm& algorithm, std::uint64_t operation,
                    std::int64_t open_messages) const;
  // Runs both, with check_placement(), as an operation of its own.
  void launch(const Algorithm& algorithm, std::span<const Tensor> tensors) const;

  // Returns the arguments of the kernel on a PE that holds a shard of x.
  KernelArgs arguments(const Tensor& x, const sim::PeLocation& pe) const;

 private:
  void check_scratch() const;

  RuntimeContext& torch_;
  const Config config_;
  const sim::IpcqParams ipcq_;
  const Layout layout_;
  std::shared_ptr<EagerSlots> eager_;
  Layout::NamesByPe port_names_;  // of a group
  int queues_ = 0;                // the most with slots that lead into one PE
  bool is_of_group_ = false;
};

}  // namespace kernbench::ccl
