// The collectives and messages of one group, whose members are SIPs, or PEs that are ranks.

#pragma once

#include <exception>
#include <map>
#include <memory>
#include <vector>

#include "ccl/backend/choice.h"
#include "ccl/backend/joint_starts.h"
#include "ccl/backend/kernel_launcher.h"
#include "ccl/backend/planned_call.h"
#include "ccl/steps/lane_queues.h"
#include "runtime/distributed/backend.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::ccl {

// A collective runs by an algorithm's plan, or by its kernel.
//
// Members launch a plan only when all of them have called, since a slice depends on how all
// their tensors are placed, which may differ.  A collective that needs all members is no later for
// it: they would have to wait for the last one's launch.
class GroupCommunicator : public distributed::Communicator {
 public:
  // `ranks` are global ranks, by group rank.  All groups share `cuts` and `starts`.  If
  // `is_default`, the group's messages use the launcher's queues.  Throws ConfigError KB-Y047 if
  // ccl.yaml names an algorithm for the group that its shape cannot carry, CollectiveMismatchError
  // KB-C026 if the rank that stands for a member is none itself.
  GroupCommunicator(RuntimeContext& torch, const KernelLauncher& launcher, std::vector<int> ranks,
                    std::string description, std::shared_ptr<CutCache> cuts,
                    std::shared_ptr<JointStarts> starts, bool is_default);

  // Throws CollectiveError KB-C012 if the algorithm is no all_reduce, KB-C013 if it cannot work on
  // tensors placed so, KB-C014 if a program's own kernel was faster than any can be, KB-C023 if
  // ranks are PEs and the collective is neither an all_reduce nor a barrier.
  void run(const distributed::CollectiveCall& call) override;
  void transfer(std::uint64_t operation, const distributed::Block& source,
                const distributed::Block& target) override;
  RunsBy runs_by(const distributed::CollectiveCall& request) override;
  // An algorithm with a kernel of its own waits on for the messages of those that do not call.
  void give_up(std::uint64_t operation, const std::exception_ptr& why) override {
    starts_->give_up(operation, why);
  }
  void abandon() override {
    meetings_.clear();
    kernels_under_way_.clear();
  }

 private:
  // A collective that not all members have finished.
  struct Meeting;
  struct Launch;
  struct KernelsUnderWay {
    Time first_start{0};
    int finished = 0;
    std::int64_t open_messages = 0;  // sent minus received, by finished members
  };

  using QueuePool = std::vector<std::shared_ptr<LaneQueues>>;

  bool has_single_driver() const { return devices_.are_pes(); }
  bool is_folded() const { return !devices_.stand_ins.empty(); }
  // The members that call: a driver for all PEs, or those that stand for others.
  int caller_count() const { return devices_.count_callers(); }
  bool has_nobody_to_wait_for() const { return has_single_driver() || ranks_.size() == 1; }
  void check(const distributed::CollectiveCall& request) const;
  Bytes count_bytes(const distributed::CollectiveCall& request) const;
  Moved moved_by(const distributed::CollectiveCall& request) const;
  const Algorithm& algorithm_for(const distributed::CollectiveCall& request);
  const Algorithm& barrier_algorithm();

  void run_planned(const distributed::CollectiveCall& call, const Algorithm& algorithm);
  void run_by_model(const distributed::CollectiveCall& call, const Algorithm& algorithm);
  // Returns false if the members take unlike steps.
  bool make_alike(PlannedCall& planned) const;
  // Throws CollectiveMismatchError KB-C026 if ranks must be exactly alike, the call has more than
  // 64 KiB, or its algorithm has no model.
  Time time_of_unlike(const PlannedCall& planned) const;
  void sleep_for(const distributed::CollectiveCall& call, Time time);
  std::shared_ptr<Meeting> meet(const distributed::CollectiveCall& call,
                                const Algorithm& algorithm);
  // Takes idle queues, or makes new ones: each collective or message has queues of its own, so that
  // no other one's messages come between.  Only the default group uses those of ccl.yaml.
  void prepare(Meeting& meeting, const std::vector<int>& sips, QueuePool& own);
  QueuePool& own_queues(const Meeting& meeting);
  std::int64_t launch(const std::shared_ptr<Launch>& launch, std::uint64_t operation);
  void finish(Meeting& meeting, std::uint64_t operation, std::int64_t open_messages);
  void check_bound(const Meeting& meeting) const;

  // Returns the launcher of the group's kernels, which is made when the first one runs.
  const KernelLauncher& kernels();
  void run_kernels(const distributed::CollectiveCall& call, const Algorithm& algorithm,
                   const Tensor& x);
  void finish_kernels(const distributed::CollectiveCall& call, const Algorithm& algorithm,
                      std::int64_t open_messages, Bytes bytes);
  Time compute_bound(Bytes bytes) const;

  RuntimeContext& torch_;
  const KernelLauncher& launcher_;
  const std::vector<int> ranks_;
  const GroupDevices devices_;
  const std::shared_ptr<CutCache> cuts_;
  const std::shared_ptr<JointStarts> starts_;
  const bool is_default_;
  std::unique_ptr<const KernelLauncher> own_kernels_;  // null: those of all ranks, or none ran yet
  const std::shared_ptr<PlanCache> plans_;
  AlgorithmChoice choice_;
  QueuePool slot_queues_;
  // By protocol, and whether small messages have slots; looked up, never listed.
  std::map<std::pair<const Protocol*, bool>, QueuePool> own_queues_;
  std::map<const Protocol*, QueuePool> message_queues_;  // by protocol, likewise
  std::map<std::pair<int, int>, std::shared_ptr<PlanCache>> message_plans_;  // by SIPs
  std::map<std::uint64_t, std::shared_ptr<Meeting>> meetings_;               // by operation
  std::map<std::uint64_t, KernelsUnderWay> kernels_under_way_;               // likewise
};

}  // namespace kernbench::ccl
