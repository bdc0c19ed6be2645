// Collectives and messages of any group, as kernels on the members' devices.  All use one kernel,
// which takes the steps that a plan has for its lane (step.h, plan.h).

#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ccl/collectives/cut_cache.h"
#include "ccl/collectives/lane_queues.h"
#include "runtime/distributed/backend.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::ccl {

// Makes the one-element tensor that a barrier all_reduces on each device, as NCCL does.
Tensor barrier_token(RuntimeContext& torch, int device);

// Members launch only when all of them have called, since a fragment depends on how all their
// tensors are placed, which may differ.  A collective that needs all members is no later for it:
// they would have to wait for the last one's launch.
class GroupCommunicator : public distributed::Communicator {
 public:
  // `ranks` are global ranks, by group rank.  All groups share `cuts`.
  GroupCommunicator(RuntimeContext& torch, std::vector<int> ranks, std::shared_ptr<CutCache> cuts);

  // Throws CollectiveError KB-C013 if a tensor lies on several SIPs, or if a message fills only a
  // part of a partial tensor.
  void run(const distributed::CollectiveCall& call) override;
  void transfer(std::uint64_t operation, const distributed::Block& source,
                const distributed::Block& target) override;
  RunsBy runs_by(const distributed::CollectiveRequest& request) override {
    return {pattern_of(request.kind)};
  }
  void abandon() override { meetings_.clear(); }

 private:
  // A collective that not all members have finished.
  struct Meeting;
  struct Launch;

  std::shared_ptr<Meeting> meet(const distributed::CollectiveCall& call);
  void prepare(Meeting& meeting);
  void plan(Meeting& meeting);
  BlockLayout layout_of(Meeting& meeting, int member, bool gives, int of);
  SharedCut shared_cut(Meeting& meeting, int of, int parts);
  LaneSteps steps_of(Meeting& meeting, int self);
  std::shared_ptr<const Cut> pair_cut(Meeting& meeting, int giver, int taker);
  // Takes queues for one collective or message, so that no other one's messages come between.
  std::shared_ptr<LaneQueues> take_queues();
  std::int64_t launch(std::shared_ptr<Launch> launch, std::uint64_t operation);
  void finish(Meeting& meeting, std::uint64_t operation, std::int64_t open_messages);
  void check_bound(const Meeting& meeting) const;

  RuntimeContext& torch_;
  const std::vector<int> ranks_;
  const std::shared_ptr<CutCache> cuts_;
  std::vector<std::shared_ptr<LaneQueues>> idle_queues_;
  std::map<std::uint64_t, std::shared_ptr<Meeting>> meetings_;  // by operation
};

}  // namespace kernbench::ccl
