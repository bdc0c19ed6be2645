#include "ccl/backend/planned_call.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "ccl/algorithms/over_cubes.h"
#include "ccl/steps/scratch_use.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

namespace {

// The different blocks of a plan, as chunks of one unit.
std::vector<Chunk> list_blocks(const Plan& plan) {
  std::set<Chunk> blocks;
  for (const Move& move : plan.moves) blocks.insert({0, 1, move.chunk.giver, move.chunk.taker});
  return {blocks.begin(), blocks.end()};
}

// The index of a list's block for or from a member; kNobody if the list is empty.
int index_for(const std::vector<distributed::Block>& blocks, int member) {
  const distributed::Block* const block = distributed::block_for(blocks, member);
  return block == nullptr ? kNobody : static_cast<int>(block - blocks.data());
}

}  // namespace

using distributed::Block;
using distributed::CollectiveCall;
using distributed::CollectiveKind;

const PlanCache::Planned& PlanCache::plan(AlgorithmPlan algorithm, CollectiveKind kind, int root,
                                          int node, const CubeTree& cubes) {
  Planned& known = plans_[{algorithm, kind, root, node, cubes.count, cubes.has_sums, cubes.root}];
  if (known.plan == nullptr) {
    auto plan = std::make_shared<Plan>(kind, node / cubes.count);
    const PlanRequest request{shape_, kind, root, node, cubes};
    cubes.count > 1 ? plan_over_cubes(algorithm, request, *plan) : algorithm(request, *plan);
    known = {plan, list_blocks(*plan)};
  }
  return known;
}

std::int64_t PlanCache::most_units_kept(AlgorithmPlan algorithm, CollectiveKind kind, int root,
                                        const CubeTree& cubes, std::size_t summands) {
  constexpr int kMostNodes = 128;
  // Larger messages pay off on the links between SIPs, of which a group of one SIP uses none.
  if (shape_.size == 1 || shape_.size * cubes.count > kMostNodes) return 0;
  const Key key{algorithm, kind, root, 0, cubes.count, cubes.has_sums, cubes.root};
  const auto [known, is_new] = kept_.try_emplace({key, summands});
  for (int node = 0; is_new && node < shape_.size * cubes.count; ++node) {
    const Plan& plan_of_node = *plan(algorithm, kind, root, node, cubes).plan;
    if (plan_of_node.moves.empty()) continue;
    known->second = std::max(known->second, ccl::most_units_kept(plan_of_node, summands));
  }
  return known->second;
}

PlannedCall::PlannedCall(const Topology& topology, std::shared_ptr<CutCache> cuts,
                         std::shared_ptr<PlanCache> plans, const GroupDevices& devices,
                         const CallSettings& settings)
    : topology_(topology),
      cuts_(std::move(cuts)),
      plans_(std::move(plans)),
      devices_(devices),
      settings_(settings) {
  const auto size = static_cast<std::size_t>(plans_->shape().size);
  requests.resize(devices_.are_pes() ? 1 : size);
  layouts_.resize(size);
}

const CollectiveCall& PlannedCall::request(int member) const {
  return devices_.are_pes() ? requests.front() : requests[static_cast<std::size_t>(member)];
}

void PlannedCall::prepare() {
  find_cubes();
  // Queues of ccl.yaml do not join all members.
  uses_slots_ = settings_.has_slots && settings_.algorithm->network == Network::any;
  find_grain(least_part_of(settings_.slot_bytes));
  if (uses_slots_) leave_slots_that_hold_up();
  order_ = best_order();
}

// A part of all lanes takes `part` of each link.  Interleaved, it waits so long at each member.  In
// sequence, each waits until the one before has come by from the other side, which takes the
// latencies of the way.
PartOrder PlannedCall::best_order() {
  const std::shared_ptr<const Plan> plan = find_plan(0);
  if (devices_.are_pes() || !is_piped(*plan)) return PartOrder::interleaved;
  const Chunk& chunk = plan->moves.front().chunk;
  const std::shared_ptr<const Cut> cut = shared_cut(std::max(chunk.giver, chunk.taker)).cut;
  std::int64_t parts = 0;
  std::int64_t elements = 0;  // of a part of all lanes
  for (const auto& [lane, fragments] : cut->fragments) {
    parts = std::max<std::int64_t>(parts, std::ssize(fragments));
    elements += fragments.front().count();
  }
  const LinkSpec& link = topology_.system.sip_link;
  const Bytes bytes = elements * size_of(any_block().tensor.dtype()) * plan->largest_chunk() /
                      plan->units / topology_.system.links_per_pair;
  const Time part = transfer_time(bytes, link.bandwidth);
  const Time way = plan->length * link.latency;
  const Time interleaved = (parts + plan->length - 1) * std::max(part, link.latency);
  const Time in_sequence = parts * std::max(part, way) + way;
  return in_sequence < interleaved ? PartOrder::in_sequence : PartOrder::interleaved;
}

// Without slots the news of the first receives cost a latency: parts that could do with slots if
// they were fewer begin together only if they have as much to carry in all steps.
void PlannedCall::leave_slots_that_hold_up() {
  const std::shared_ptr<const Plan> plan = find_plan(0);
  if (slots_suffice(*plan)) return;
  const Bytes least = least_part_of(settings_.slot_bytes);
  const bool can_use_slots = plan->burst() <= settings_.depth * most_parts(*plan).classes;
  // Larger parts are fewer, and perhaps few enough for the slots.
  if (can_use_slots) cut_again(std::max(least_part_without_slots(topology_, *plan), least));
  uses_slots_ = slots_suffice(*plan);
  // Without slots a part may be larger than one, so that there are fewer.
  if (most_parts(*plan).parts > plan->window) cut_again(least);
}

bool PlannedCall::slots_suffice(const Plan& plan) {
  const auto [parts, classes] = most_parts(plan);
  return parts <= plan.window &&
         sim::ceil_divide(std::int64_t{parts} * plan.burst(), classes) <= settings_.depth;
}

void PlannedCall::cut_again(Bytes least_part) {
  // Cuts depend on the grain, so they are made again with the new one.
  shared_cuts_.clear();
  pair_cuts_.clear();
  find_grain(least_part);
}

// The most fragments of a lane, and the fewest classes of lanes; more fragments than any window if
// each pair of members has blocks of its own.
PlannedCall::Parts PlannedCall::most_parts(const Plan& plan) {
  Parts most{1, std::numeric_limits<int>::max()};
  for (const Move& move : plan.moves) {
    if (move.chunk.giver != kNobody && move.chunk.taker != kNobody) {
      return {std::numeric_limits<int>::max(), 1};
    }
    const int of = std::max(move.chunk.giver, move.chunk.taker);
    const std::shared_ptr<const Cut> cut =
        devices_.are_pes() ? cut_of_shards(move.chunk) : shared_cut(of).cut;
    most.classes = std::min(most.classes, cut->classes);
    for (const auto& [lane, fragments] : cut->fragments) {
      most.parts = std::max(most.parts, static_cast<int>(fragments.size()));
    }
  }
  return most;
}

// Cubes share the work of the exchange inside their SIP, if the tensors of all members lie alike on
// several cubes: of copies one is sent, and spread over the cubes of its target; summands are added
// up first, which only an all_reduce does.  Messages are reduced in one way, so summands must be
// added among members too.
void PlannedCall::find_cubes() {
  cubes_ = {sim::cube_grid(topology_), 1, false, settings_.root};
  if (devices_.are_pes()) return;
  const DPPolicy& dp = any_block().tensor.dp();
  const bool are_alike = std::ranges::all_of(requests, [&](const CollectiveCall& other) {
    const auto lies_alike = [&](const Block& block) { return block.tensor.dp() == dp; };
    return std::ranges::all_of(other.gives, lies_alike) &&
           std::ranges::all_of(other.takes, lies_alike);
  });
  const bool adds = request(0).op == ReduceOp::sum || request(0).op == ReduceOp::avg;
  // A tensor that is sharded over cubes has other elements on each of them, so there is nothing to
  // share.
  if (is_sharded(dp.cube) || !are_alike || (dp.cube == Shard::partial && !adds)) return;
  if (settings_.kind != CollectiveKind::all_reduce && is_partial(dp)) return;
  cubes_.count = dp.cube_holders(topology_);
  cubes_.has_sums = dp.cube == Shard::partial;
}

// The first block that there is: all are of one type.
const Block& PlannedCall::any_block() const {
  for (const CollectiveCall& other : requests) {
    if (!other.gives.empty()) return other.gives.front();
  }
  return requests.front().takes.front();
}

Reduction PlannedCall::reduction() const {
  return {request(0).op, any_block().tensor.dtype(), member_count()};
}

const PlanCache::Planned& PlannedCall::planned(int node) {
  return plans_->plan(settings_.algorithm->plan, settings_.kind, request(0).root, node, cubes_);
}

std::int64_t PlannedCall::most_units_kept(std::size_t summands) {
  return plans_->most_units_kept(settings_.algorithm->plan, settings_.kind, request(0).root, cubes_,
                                 summands);
}

// Parts of less than `least_part` bytes do not begin together.
void PlannedCall::find_grain(Bytes least_part) {
  const Block& block = any_block();
  std::size_t summands = 1;
  for (int member = 0; member < static_cast<int>(requests.size()); ++member) {
    // The first block stands for its list, since the number of summands only bounds the size of
    // messages.
    for (const auto* blocks : {&request(member).gives, &request(member).takes}) {
      if (blocks->empty() || devices_.are_pes()) continue;
      summands = std::max(summands, cuts_->find_layout(blocks->front().tensor)->most_summands());
    }
  }
  std::int64_t shards = 1;
  if (!devices_.are_pes()) {
    shards = static_cast<std::int64_t>(cuts_->find_layout(block.tensor)->shard_count());
  }
  const auto cubes = static_cast<std::size_t>(cubes_.count);
  summands = std::max<std::size_t>(summands / cubes, 1);
  grain_ =
      ccl::find_grain(*find_plan(0), {.topology = topology_,
                                      .dtype = block.tensor.dtype(),
                                      .count = block.count,
                                      .lanes = std::max<std::int64_t>(shards / cubes_.count, 1),
                                      .summands = summands,
                                      .kept = most_units_kept(summands),
                                      .cubes = cubes_.count,
                                      .are_pes = devices_.are_pes(),
                                      .slot = uses_slots_ ? settings_.slot_bytes : 0,
                                      .least_part = least_part});
}

// Cuts

BlockLayout PlannedCall::find_layout(int member, bool gives, int of) {
  const CollectiveCall& of_member = request(member);
  const Block& block = *block_for(gives ? of_member.gives : of_member.takes, of);
  Lies& known = layouts_[static_cast<std::size_t>(member)][gives ? 1 : 0];
  // A member's blocks mostly lie in one tensor, so the last layout is nearly always the wanted one.
  if (known.tensor != block.tensor.storage().get()) {
    known = {block.tensor.storage().get(), cuts_->find_layout(block.tensor)};
  }
  return {known.layout, block.first};
}

// The cut of `of`'s blocks for or from all; of every member's block if `of` is kNobody.
PlannedCall::SharedCut PlannedCall::make_cut(int of) {
  const auto size = static_cast<std::size_t>(member_count());
  SharedCut shared{nullptr, std::vector<int>(size, kNobody), std::vector<int>(size, kNobody)};
  std::vector<BlockLayout> layouts;
  std::int64_t count = 0;
  const auto note = [&](int member, bool gives) {
    BlockLayout layout = find_layout(member, gives, of);
    const auto known = std::ranges::find(layouts, layout);
    const auto index = static_cast<int>(known - layouts.begin());
    // Members whose tensors lie alike share a layout, which keeps the number of intersections
    // small.
    if (known == layouts.end()) layouts.push_back(std::move(layout));
    count = block_for(gives ? request(member).gives : request(member).takes, of)->count;
    return index;
  };
  for (int member = 0; member < member_count(); ++member) {
    const bool is_own = of == kNobody || member == of;
    // In a reduce_scatter every member gives a summand of the block, and in an all_gather every
    // member takes it.
    const bool gives = is_own || settings_.kind == CollectiveKind::reduce_scatter;
    const bool takes = is_own || settings_.kind == CollectiveKind::all_gather;
    if (gives) shared.gives[static_cast<std::size_t>(member)] = note(member, true);
    if (takes) shared.takes[static_cast<std::size_t>(member)] = note(member, false);
  }
  shared.cut = cuts_->cut(layouts, count, any_block().tensor.dtype(), grain_);
  return shared;
}

const PlannedCall::SharedCut& PlannedCall::shared_cut(int of) {
  const auto found = shared_cuts_.find(of);
  if (found != shared_cuts_.end()) return found->second;
  return shared_cuts_.emplace(of, make_cut(of)).first->second;
}

// Null if the giver has no block for the taker.
std::shared_ptr<const Cut> PlannedCall::pair_cut(int giver, int taker) {
  const CollectiveCall& from = request(giver);
  const CollectiveCall& to = request(taker);
  const Block* given = block_for(from.gives, taker);
  if (given == nullptr || block_for(to.takes, giver) == nullptr) return nullptr;
  const auto [known, is_new] = pair_cuts_.try_emplace({giver, taker});
  if (!is_new) return known->second;
  std::vector<BlockLayout> layouts = {find_layout(giver, true, taker)};
  BlockLayout target = find_layout(taker, false, giver);
  // Both ends lie alike in most programs, and then one layout serves as source and target.
  if (!(target == layouts.front())) layouts.push_back(std::move(target));
  return known->second = cuts_->cut(layouts, given->count, given->tensor.dtype(), grain_);
}

ChunkPlace PlannedCall::find_place(int member, const Chunk& chunk) {
  if (devices_.are_pes()) return place_of_shard(member, chunk);
  const CollectiveCall& own = request(member);
  const bool is_giver = chunk.giver == kNobody || chunk.giver == member;
  const bool is_taker = chunk.taker == kNobody || chunk.taker == member;
  ChunkPlace place;
  if (chunk.giver != kNobody && chunk.taker != kNobody) {
    place.cut = pair_cut(chunk.giver, chunk.taker);
    if (place.cut == nullptr) return place;
    place.target_layout = static_cast<int>(place.cut->layouts.size()) - 1;
  } else {
    const SharedCut& shared = shared_cut(std::max(chunk.giver, chunk.taker));
    place.cut = shared.cut;
    place.source_layout = shared.gives[static_cast<std::size_t>(member)];
    place.target_layout = shared.takes[static_cast<std::size_t>(member)];
  }
  if (is_giver) place.source = index_for(own.gives, chunk.taker);
  // The root of a broadcast has the values, but a partial tensor becomes replicated there too.
  if (is_taker && distributed::changes(own)) place.target = index_for(own.takes, chunk.giver);
  return place;
}

// Members that are PEs have a shard each, of each of the driver's tensors.
ChunkPlace PlannedCall::place_of_shard(int member, const Chunk& chunk) {
  const CollectiveCall& call = requests.front();
  if (shards_.empty()) {
    for (int i = 0; i < member_count(); ++i) {
      shards_.push_back(
          {.copies = {i}, .holders = {Lane{}}, .summands = {i}, .summand_holders = {Lane{}}});
    }
  }
  ChunkPlace place{.cut = cut_of_shards(chunk),
                   .target_layout = 1,
                   .slice = &shards_[static_cast<std::size_t>(member)]};
  const bool is_giver = chunk.giver == kNobody || chunk.giver == member;
  const bool is_taker = chunk.taker == kNobody || chunk.taker == member;
  // With rank = PE a broadcast is in place: its root's shard is the source itself.
  const bool has_it = call.kind == CollectiveKind::broadcast && call.root == member;
  if (is_giver) place.source = index_for(call.gives, chunk.taker);
  if (is_taker && !has_it && distributed::writes(call, member)) {
    place.target = index_for(call.takes, chunk.giver);
  }
  return place;
}

// Members that are PEs have one shard each, so a block is cut into equal parts, one for each shard
// of its tensor.
std::shared_ptr<const Cut> PlannedCall::cut_of_shards(const Chunk& chunk) {
  std::shared_ptr<const Cut>& known = pair_cuts_[{chunk.giver, chunk.taker}];
  if (known != nullptr) return known;
  const Block& given = *block_for(requests.front().gives, chunk.taker);
  const Block& taken = *block_for(requests.front().takes, chunk.giver);
  const std::int64_t count = given.count / member_count();
  auto cut = std::make_shared<Cut>();
  cut->class_of = {0};
  if (count > 0) {
    append_in_parts(
        cut->fragments[Lane{}],
        {1,
         count,
         Lane{},
         {{0, given.first / member_count(), count}, {0, taken.first / member_count(), count}}},
        grain_);
  }
  return known = cut;
}

// Programs

sim::PeLocation PlannedCall::pe_of(int node, const Lane& lane) const {
  if (devices_.are_pes()) return devices_.pes[static_cast<std::size_t>(node)];
  const int sip = devices_.sips[static_cast<std::size_t>(node / cubes_.count)];
  return {sip, cubes_.count > 1 ? node % cubes_.count : lane.cube, lane.pe};
}

Programs PlannedCall::make_programs(int member) {
  Programs programs;
  for (int cube = 0; cube < cubes_.count; ++cube) {
    const std::shared_ptr<const LaneSteps> steps = find_steps(member, cube);
    for (const auto& [lane, of_lane] : *steps) {
      if (of_lane.steps.empty()) continue;
      programs[pe_of(member * cubes_.count + cube, lane)] = {
          member, lane, std::shared_ptr<const StepList>(steps, &of_lane)};
    }
  }
  return programs;
}

std::shared_ptr<const LaneSteps> PlannedCall::find_steps(int member, int cube) {
  const int node = member * cubes_.count + cube;
  const auto& [plan, blocks] = planned(node);
  const auto place = [&](const Chunk& chunk) { return find_place(member, chunk); };
  const auto make = [&] {
    const CubeFilter cubes{cubes_.has_sums ? cube : kNobody, cubes_.count > 1 ? cube : kNobody};
    return expand(*plan, place, cubes, order_);
  };
  // Members that are PEs have slices of this call's.
  if (devices_.are_pes()) return std::make_shared<const LaneSteps>(make());
  StepCache::Key key{plan, order_, {}};
  std::ranges::transform(blocks, std::back_inserter(key.places), place);
  return plans_->steps().steps(node, std::move(key), make);
}

}  // namespace kernbench::ccl
