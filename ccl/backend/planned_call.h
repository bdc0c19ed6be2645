// A collective of a group as an algorithm plans it: the requests of all members become steps of
// their PEs.

#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "ccl/backend/group_devices.h"
#include "ccl/backend/plan_cache.h"
#include "ccl/core/algorithm.h"
#include "ccl/core/config.h"
#include "ccl/steps/cut_cache.h"
#include "ccl/steps/cut_sizes.h"
#include "ccl/steps/expansion.h"
#include "runtime/distributed/collective.h"

namespace kernbench::sim {
class SipNetwork;
}

namespace kernbench::ccl {

// The steps of one PE, which belongs to a member.
struct Program {
  int member = 0;
  Lane lane;
  std::shared_ptr<const StepList> steps;
};
using Programs = std::map<sim::PeLocation, Program>;

// The bytes of all blocks that a rank gives, or of those that it takes if they are more.
Bytes bytes_of(const distributed::CollectiveCall& call);

struct CallSettings {
  const Algorithm* algorithm = nullptr;
  distributed::CollectiveKind kind = distributed::CollectiveKind::all_reduce;
  Root root = Root::center;  // of the trees over cubes
  Bytes slot_bytes = 0;      // of the queues between neighbours
  int depth = 0;             // their slots
  bool has_slots = false;    // messages may go through them

  // `has_queues`: neighbours are joined by those of ccl.yaml, as in the default group.
  static CallSettings of(const Config& config, const Algorithm& algorithm,
                         distributed::CollectiveKind kind, bool has_queues);
};

class PlannedCall {
 public:
  // `requests` are by member, of those that stand for themselves; of members that are PEs, there is
  // one for all.
  PlannedCall(const Topology& topology, std::shared_ptr<CutCache> cuts,
              std::shared_ptr<PlanCache> plans, const GroupDevices& devices,
              const CallSettings& settings);

  std::vector<distributed::CollectiveCall> requests;

  // Called once all requests are there.
  void prepare();
  // The same with CutSizes::has_equal_chunks.
  void prepare_equal_chunks();
  // True if messages may go through queues of ccl.yaml, which lead to neighbours.
  bool may_use_slots() const {
    return settings_.has_slots && settings_.algorithm->network == Network::any;
  }
  // True if messages go through slots, for which no sender waits: there are as many as messages in
  // two times.  Else they go straight to posted receives, which wait for no slot.
  bool uses_slots() const { return uses_slots_; }
  // The steps of a member's PEs.
  Programs make_programs(int member);
  // False if the steps of members are not those of their stand-in, shifted to their places.  Of
  // many followers 8 to 64 are compared.
  bool are_members_alike();
  // A member's request, or that of all.
  const distributed::CollectiveCall& request(int member) const;
  // The PE that serves a node of the plan in a lane.
  sim::PeLocation pe_of(int node, const Lane& lane) const;
  int member_count() const { return plans_->shape().size; }
  const Ways* ways() const { return plans_->shape().ways.get(); }
  const CallSettings& settings() const { return settings_; }
  Reduction reduction() const;
  // The cubes of each member among which the plan goes: a node is member * count + cube.
  const CubeTree& cubes() const { return cubes_; }
  std::shared_ptr<const Plan> find_plan(int node) { return planned(node).plan; }
  // Where the block of some chunks lies on a member.
  ChunkPlace find_place(int member, const ChunkRange& chunks);

 private:
  // The layout of the tensor that was looked up last, since most blocks are of one tensor.
  struct Lies {
    const Tensor::Storage* tensor = nullptr;
    std::shared_ptr<const TensorLayout> layout;
  };
  struct SharedCut {
    std::shared_ptr<const Cut> cut;
    std::vector<int> gives;  // by member, the index of its layout; kNobody: it gives no block
    std::vector<int> takes;
  };

  bool is_like(const Programs& programs, int stand_in, int member,
               const sim::SipNetwork& network);
  const distributed::Block& any_block() const;
  void find_cubes();
  std::int64_t most_chunks_kept(std::size_t summands);
  std::size_t most_summands();
  void find_sizes(Bytes least_slice);
  struct SliceCount {
    int of_lane = 1;
    int channels = 1;
  };
  SliceCount count_slices(const Plan& plan);
  void leave_slots_that_hold_up();
  bool slots_suffice(const Plan& plan);
  SliceOrder best_order();
  const PlanCache::Planned& planned(int node);
  std::shared_ptr<const LaneSteps> find_steps(int member, int cube);
  BlockLayout find_layout(int member, bool gives, int of);
  SharedCut make_cut(int of);
  const SharedCut& shared_cut(int of);
  std::shared_ptr<const Cut> pair_cut(int giver, int taker);
  std::shared_ptr<const Cut> cut_of_shards(const ChunkRange& chunks);
  ChunkPlace place_of_shard(int member, const ChunkRange& chunks);

  const Topology& topology_;
  const std::shared_ptr<CutCache> cuts_;
  const std::shared_ptr<PlanCache> plans_;
  const GroupDevices devices_;
  const CallSettings settings_;
  CubeTree cubes_;
  CutSizes sizes_;
  bool has_equal_chunks_ = false;
  bool uses_slots_ = false;
  SliceOrder order_ = SliceOrder::interleaved;
  std::vector<std::array<Lies, 2>> layouts_;  // by member: of what it takes, and of what it gives
  std::map<int, SharedCut> shared_cuts_;      // by the member whose block it is
  std::map<std::pair<int, int>, std::shared_ptr<const Cut>> pair_cuts_;
  std::vector<Rectangle> shards_;  // by member, if members are PEs
};

}  // namespace kernbench::ccl
