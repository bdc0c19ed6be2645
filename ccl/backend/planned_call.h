// A collective of a group as an algorithm plans it: the requests of all members become steps of
// their PEs.

#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "ccl/core/algorithm.h"
#include "ccl/steps/cut_cache.h"
#include "ccl/steps/grain.h"
#include "ccl/steps/step_cache.h"
#include "runtime/distributed/collective.h"

namespace kernbench::ccl {

// Plans that do not depend on where tensors lie, made once for all calls of a group, and the steps
// that come of them.
class PlanCache {
 public:
  // A plan, and the blocks that its chunks are of.
  struct Planned {
    std::shared_ptr<const Plan> plan;
    std::vector<Chunk> blocks;
  };

  explicit PlanCache(const GroupShape& shape) : shape_(shape) {}

  const GroupShape& shape() const { return shape_; }
  const Planned& plan(AlgorithmPlan algorithm, distributed::CollectiveKind kind, int root, int node,
                      const CubeTree& cubes);
  // The most units that any node of a plan keeps in scratch; 0 if there are too many nodes to ask.
  std::int64_t most_units_kept(AlgorithmPlan algorithm, distributed::CollectiveKind kind, int root,
                               const CubeTree& cubes, std::size_t summands);
  StepCache& steps() { return steps_; }

 private:
  using Key = std::tuple<AlgorithmPlan, distributed::CollectiveKind, int, int, int, bool, Root>;

  const GroupShape shape_;
  std::map<Key, Planned> plans_;
  std::map<std::pair<Key, std::size_t>, std::int64_t> kept_;  // of node 0's key, by summands
  StepCache steps_;
};

// The steps of one PE, which belongs to a member.
struct Program {
  int member = 0;
  Lane lane;
  std::shared_ptr<const StepList> steps;
};
using Programs = std::map<sim::PeLocation, Program>;

// The group's devices: members are SIPs, or PEs.
struct GroupDevices {
  std::vector<int> sips;             // by member
  std::vector<sim::PeLocation> pes;  // by member, if members are PEs; else none

  bool are_pes() const { return !pes.empty(); }
};

struct CallSettings {
  const Algorithm* algorithm = nullptr;
  distributed::CollectiveKind kind = distributed::CollectiveKind::all_reduce;
  Root root = Root::center;  // of the trees over cubes
  Bytes slot_bytes = 0;      // of the queues between neighbours
  int depth = 0;             // their slots
  bool has_slots = false;    // messages may go through them
};

class PlannedCall {
 public:
  // `requests` are by member; of members that are PEs, there is one for all.
  PlannedCall(const Topology& topology, std::shared_ptr<CutCache> cuts,
              std::shared_ptr<PlanCache> plans, const GroupDevices& devices,
              const CallSettings& settings);

  std::vector<distributed::CollectiveCall> requests;

  // Called once all requests are there.
  void prepare();
  // True if messages go through slots, for which no sender waits: there are as many as messages in
  // two times.  Else they go straight to posted receives, which wait for no slot.
  bool uses_slots() const { return uses_slots_; }
  // The steps of a member's PEs.
  Programs make_programs(int member);
  // A member's request; that of all if members are PEs.
  const distributed::CollectiveCall& request(int member) const;
  // The PE that serves a node of the plan in a lane.
  sim::PeLocation pe_of(int node, const Lane& lane) const;
  int member_count() const { return plans_->shape().size; }
  const Ways* ways() const { return plans_->shape().ways.get(); }
  const CallSettings& settings() const { return settings_; }
  Reduction reduction() const;

 private:
  // The layout of the tensor that was looked up last, since blocks are mostly parts of one.
  struct Lies {
    const Tensor::Storage* tensor = nullptr;
    std::shared_ptr<const TensorLayout> layout;
  };
  struct SharedCut {
    std::shared_ptr<const Cut> cut;
    std::vector<int> gives;  // by member, the index of its layout; kNobody: it gives no block
    std::vector<int> takes;
  };

  const distributed::Block& any_block() const;
  void find_cubes();
  std::int64_t most_units_kept(std::size_t summands);
  void find_grain(Bytes least_part);
  struct Parts {
    int parts = 1;
    int classes = 1;
  };
  Parts most_parts(const Plan& plan);
  void leave_slots_that_hold_up();
  bool slots_suffice(const Plan& plan);
  void cut_again(Bytes least_part);
  PartOrder best_order();
  const PlanCache::Planned& planned(int node);
  std::shared_ptr<const Plan> find_plan(int node) { return planned(node).plan; }
  std::shared_ptr<const LaneSteps> find_steps(int member, int cube);
  BlockLayout find_layout(int member, bool gives, int of);
  SharedCut make_cut(int of);
  const SharedCut& shared_cut(int of);
  std::shared_ptr<const Cut> pair_cut(int giver, int taker);
  std::shared_ptr<const Cut> cut_of_shards(const Chunk& chunk);
  ChunkPlace find_place(int member, const Chunk& chunk);
  ChunkPlace place_of_shard(int member, const Chunk& chunk);

  const Topology& topology_;
  const std::shared_ptr<CutCache> cuts_;
  const std::shared_ptr<PlanCache> plans_;
  const GroupDevices devices_;
  const CallSettings settings_;
  CubeTree cubes_;
  Grain grain_;
  bool uses_slots_ = false;
  PartOrder order_ = PartOrder::interleaved;
  std::vector<std::array<Lies, 2>> layouts_;  // by member: of what it takes, and of what it gives
  std::map<int, SharedCut> shared_cuts_;      // by the member whose block it is
  std::map<std::pair<int, int>, std::shared_ptr<const Cut>> pair_cuts_;
  std::vector<Slice> shards_;  // by member, if members are PEs
};

}  // namespace kernbench::ccl
