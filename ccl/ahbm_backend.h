// The backend `ahbm`: every collective is a kernel over IPCQ on the ranks' devices.  A rank is a
// SIP, or, with world_size in ccl.yaml, a PE, and a single driver calls for all of them (ADR-0024).

#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ccl/ahbm_registration.h"
#include "ccl/auto_choice.h"
#include "ccl/collectives/group_communicator.h"
#include "ccl/config.h"
#include "ccl/kernel_launcher.h"
#include "runtime/distributed/backend.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::ccl {

class AhbmBackend : public distributed::Backend {
 public:
  // Makes the queues.  Throws as KernelLauncher does.
  AhbmBackend(RuntimeContext& torch, const Config& config)
      : torch_(torch),
        launcher_(torch, config),
        cuts_(std::make_shared<CutCache>(torch.topology())) {}

  std::string_view name() const override { return "ahbm"; }
  int world_size() const override { return launcher_.layout().world_size(); }
  int caller_count() const override {
    return launcher_.layout().is_rank_pe() ? 1 : launcher_.layout().world_size();
  }
  std::unique_ptr<distributed::Communicator> connect(const std::vector<int>& ranks) override;

  // Throws DeviceError KB-Q003 if kernels of the user's have left messages between SIPs.
  void close() override;

 private:
  RuntimeContext& torch_;
  const KernelLauncher launcher_;
  const std::shared_ptr<CutCache> cuts_;
  bool has_world_ = false;
};

// The group of all ranks.  Its all_reduce with SUM runs the algorithm of ccl.yaml, and its barrier
// the intercube all-reduce, both over the queues of ccl.yaml; all other collectives run as in any
// group.
class WorldCommunicator : public distributed::Communicator {
 public:
  // `ranks` are global ranks, by group rank.  All groups share `cuts`.
  WorldCommunicator(RuntimeContext& torch, const KernelLauncher& launcher,
                    const std::vector<int>& ranks, std::shared_ptr<CutCache> cuts)
      : torch_(torch),
        launcher_(launcher),
        caller_count_(static_cast<int>(ranks.size())),
        others_(torch, ranks, std::move(cuts)) {}

  // Throws CollectiveError KB-C012 if the algorithm is no all_reduce, KB-C013 if it cannot work on
  // a tensor placed so, KB-C014 if a program's own algorithm was faster than any can be, KB-C023
  // if ranks are PEs and the collective is neither an all_reduce with SUM nor a barrier.
  void run(const distributed::CollectiveCall& call) override;
  void transfer(std::uint64_t operation, const distributed::Block& source,
                const distributed::Block& target) override;
  RunsBy runs_by(const distributed::CollectiveRequest& request) override;
  void abandon() override {
    under_way_.clear();
    others_.abandon();
  }

 private:
  // A collective that not all ranks have finished.
  struct UnderWay {
    Time first_start{0};
    int finished = 0;
    std::int64_t open_messages = 0;  // sent minus received, by finished ranks
  };
  // The properties of a tensor on which auto's choice depends.
  using ChoiceKey = std::tuple<std::vector<std::int64_t>, DType, std::string, int>;

  void all_reduce(const distributed::CollectiveCall& call, const Tensor& x);
  // Runs an all_reduce of one element along the grid; NCCL's barrier is an all_reduce too.
  void barrier(const distributed::CollectiveCall& call);
  void check_rank_is_sip(std::string_view what) const;
  const Algorithm& algorithm_for(const Tensor& x);
  void run(const distributed::CollectiveCall& call, const Algorithm& algorithm, const Tensor& x);
  void finish(const distributed::CollectiveCall& call, const Algorithm& algorithm,
              std::int64_t open_messages, Bytes bytes);

  RuntimeContext& torch_;
  const KernelLauncher& launcher_;
  const int caller_count_;
  GroupCommunicator others_;
  std::map<std::uint64_t, UnderWay> under_way_;  // by operation
  std::map<ChoiceKey, Choice> choices_;
};

}  // namespace kernbench::ccl
