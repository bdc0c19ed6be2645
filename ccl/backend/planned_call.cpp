#include "ccl/backend/planned_call.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

namespace {

// The index of a list's block for or from a member; kNobody if the list is empty.
int index_for(const std::vector<distributed::Block>& blocks, int member) {
  const distributed::Block* const block = distributed::block_for(blocks, member);
  return block == nullptr ? kNobody : static_cast<int>(block - blocks.data());
}

}  // namespace

using distributed::Block;
using distributed::CollectiveCall;
using distributed::CollectiveKind;

Bytes bytes_of(const CollectiveCall& call) {
  const auto sum = [](const std::vector<Block>& blocks) {
    Bytes bytes = 0;
    for (const Block& block : blocks) bytes += block.count * size_of(block.tensor.dtype());
    return bytes;
  };
  return std::max(sum(call.gives), sum(call.takes));
}

CallSettings CallSettings::of(const Config& config, const Algorithm& algorithm, CollectiveKind kind,
                              bool has_queues) {
  const sim::IpcqParams ipcq = config.ipcq();
  return {&algorithm,      kind,       config.root(),
          ipcq.slot_bytes, ipcq.depth, has_queues && !has_pairs(kind)};
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
  if (devices_.are_pes()) return requests.front();
  return requests[static_cast<std::size_t>(devices_.stand_in(member))];
}

void PlannedCall::prepare() {
  find_cubes();
  uses_slots_ = may_use_slots();
  find_sizes(least_slice_of(settings_.slot_bytes));
  if (uses_slots_) leave_slots_that_hold_up();
  order_ = best_order();
}

void PlannedCall::prepare_equal_chunks() {
  has_equal_chunks_ = true;
  prepare();
}

// A lane's slices follow each other in one of two ways.  A slice of all lanes takes `busy` of each
// link.  Interleaved, it waits so long at each member.  In sequence, each waits until the one
// before has come by from the other side, which takes the latencies of the way.  The shorter one is
// taken.
SliceOrder PlannedCall::best_order() {
  const std::shared_ptr<const Plan> plan = find_plan(0);
  if (devices_.are_pes() || !is_piped(*plan)) return SliceOrder::interleaved;
  const ChunkRange& chunks = plan->moves.front().chunks;
  const std::shared_ptr<const Cut> cut = shared_cut(std::max(chunks.giver, chunks.taker)).cut;
  std::int64_t slices = 0;    // of a lane
  std::int64_t elements = 0;  // of one slice of each lane
  for (const auto& [lane, of_lane] : cut->slices) {
    slices = std::max<std::int64_t>(slices, std::ssize(of_lane));
    elements += of_lane.front().count();
  }
  const LinkSpec& link = topology_.system.sip_link;
  const Bytes bytes = elements * size_of(any_block().tensor.dtype()) * plan->most_chunks() /
                      plan->chunk_count / topology_.system.links_per_pair;
  const Time busy = transfer_time(bytes, link.bandwidth);
  const Time way = plan->length * link.latency;
  const Time interleaved = (slices + plan->length - 1) * std::max(busy, link.latency);
  const Time in_sequence = slices * std::max(busy, way) + way;
  return in_sequence < interleaved ? SliceOrder::in_sequence : SliceOrder::interleaved;
}

// Messages leave the slots if there are too few for the slices that begin together.  Each receive
// is posted then, and the news of the first ones cost a latency: so larger slices are tried first,
// which are fewer and perhaps few enough.  Without slots a slice may be larger than a slot.
void PlannedCall::leave_slots_that_hold_up() {
  const std::shared_ptr<const Plan> plan = find_plan(0);
  if (slots_suffice(*plan)) return;
  const Bytes least = least_slice_of(settings_.slot_bytes);
  const bool could_suffice = plan->burst() <= settings_.depth * count_slices(*plan).channels;
  if (could_suffice) find_sizes(std::max(least_slice_without_slots(topology_, *plan), least));
  uses_slots_ = slots_suffice(*plan);
  if (count_slices(*plan).of_lane > plan->slices_at_once) find_sizes(least);
}

bool PlannedCall::slots_suffice(const Plan& plan) {
  const auto [slices, channels] = count_slices(plan);
  return ccl::slots_suffice(plan, slices, channels, settings_.depth);
}

// The most slices of a lane, and the fewest channels.  If each pair of members has blocks of its
// own, they are too many to count, and more than any plan begins at once.
PlannedCall::SliceCount PlannedCall::count_slices(const Plan& plan) {
  SliceCount count{1, std::numeric_limits<int>::max()};
  for (const Move& move : plan.moves) {
    if (move.chunks.giver != kNobody && move.chunks.taker != kNobody) {
      return {std::numeric_limits<int>::max(), 1};
    }
    const int of = std::max(move.chunks.giver, move.chunks.taker);
    const std::shared_ptr<const Cut> cut =
        devices_.are_pes() ? cut_of_shards(move.chunks) : shared_cut(of).cut;
    count.channels = std::min(count.channels, cut->channels);
    for (const auto& [lane, slices] : cut->slices) {
      count.of_lane = std::max(count.of_lane, static_cast<int>(slices.size()));
    }
  }
  return count;
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

std::int64_t PlannedCall::most_chunks_kept(std::size_t summands) {
  return plans_->most_chunks_kept(settings_.algorithm->plan, settings_.kind, request(0).root,
                                  cubes_, summands);
}

// The summands of a value inside a SIP.  The first block stands for its list, since their number
// only bounds the size of messages.
std::size_t PlannedCall::most_summands() {
  std::size_t summands = 1;
  if (devices_.are_pes()) return summands;
  for (const CollectiveCall& call : requests) {
    for (const auto* blocks : {&call.gives, &call.takes}) {
      if (blocks->empty()) continue;
      summands = std::max(summands, cuts_->find_layout(blocks->front().tensor)->most_summands());
    }
  }
  return summands;
}

// Slices of less than `least_slice` bytes do not begin together.
void PlannedCall::find_sizes(Bytes least_slice) {
  // Cuts depend on the sizes, so they are made again with new ones.
  shared_cuts_.clear();
  pair_cuts_.clear();
  const Block& block = any_block();
  std::int64_t shards = 1;
  if (!devices_.are_pes()) {
    shards = static_cast<std::int64_t>(cuts_->find_layout(block.tensor)->shard_count());
  }
  const auto cubes = static_cast<std::size_t>(cubes_.count);
  const std::size_t summands = std::max<std::size_t>(most_summands() / cubes, 1);
  sizes_ = find_cut_sizes(*find_plan(0), {.topology = topology_,
                                          .dtype = block.tensor.dtype(),
                                          .count = block.count,
                                          .lanes = std::max<std::int64_t>(shards / cubes_.count, 1),
                                          .summands = summands,
                                          .kept = most_chunks_kept(summands),
                                          .cubes = cubes_.count,
                                          .are_pes = devices_.are_pes(),
                                          .slot = uses_slots_ ? settings_.slot_bytes : 0,
                                          .least = least_slice,
                                          .has_equal_chunks = has_equal_chunks_});
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
  shared.cut = cuts_->cut(layouts, count, any_block().tensor.dtype(), sizes_);
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
  return known->second = cuts_->cut(layouts, given->count, given->tensor.dtype(), sizes_);
}

ChunkPlace PlannedCall::find_place(int member, const ChunkRange& chunks) {
  if (devices_.are_pes()) return place_of_shard(member, chunks);
  const CollectiveCall& own = request(member);
  const bool is_giver = chunks.giver == kNobody || chunks.giver == member;
  const bool is_taker = chunks.taker == kNobody || chunks.taker == member;
  ChunkPlace place;
  if (chunks.giver != kNobody && chunks.taker != kNobody) {
    place.cut = pair_cut(chunks.giver, chunks.taker);
    if (place.cut == nullptr) return place;
    place.target_layout = static_cast<int>(place.cut->layouts.size()) - 1;
  } else {
    const SharedCut& shared = shared_cut(std::max(chunks.giver, chunks.taker));
    place.cut = shared.cut;
    place.source_layout = shared.gives[static_cast<std::size_t>(member)];
    place.target_layout = shared.takes[static_cast<std::size_t>(member)];
  }
  if (is_giver) place.source = index_for(own.gives, chunks.taker);
  // The root of a broadcast has the values, but a partial tensor becomes replicated there too.
  if (is_taker && distributed::changes(own)) place.target = index_for(own.takes, chunks.giver);
  return place;
}

// Members that are PEs have a shard each, of each of the driver's tensors.
ChunkPlace PlannedCall::place_of_shard(int member, const ChunkRange& chunks) {
  const CollectiveCall& call = requests.front();
  if (shards_.empty()) {
    for (int i = 0; i < member_count(); ++i) {
      shards_.push_back(
          {.copies = {i}, .holders = {Lane{}}, .summands = {i}, .summand_holders = {Lane{}}});
    }
  }
  ChunkPlace place{.cut = cut_of_shards(chunks),
                   .target_layout = 1,
                   .rectangle = &shards_[static_cast<std::size_t>(member)]};
  const bool is_giver = chunks.giver == kNobody || chunks.giver == member;
  const bool is_taker = chunks.taker == kNobody || chunks.taker == member;
  // With rank = PE a broadcast is in place: its root's shard is the source itself.
  const bool has_it = call.kind == CollectiveKind::broadcast && call.root == member;
  if (is_giver) place.source = index_for(call.gives, chunks.taker);
  if (is_taker && !has_it && distributed::writes(call, member)) {
    place.target = index_for(call.takes, chunks.giver);
  }
  return place;
}

// Members that are PEs have one shard each, so a block has equally many elements in each shard of
// its tensor.
std::shared_ptr<const Cut> PlannedCall::cut_of_shards(const ChunkRange& chunks) {
  std::shared_ptr<const Cut>& known = pair_cuts_[{chunks.giver, chunks.taker}];
  if (known != nullptr) return known;
  const Block& given = *block_for(requests.front().gives, chunks.taker);
  const Block& taken = *block_for(requests.front().takes, chunks.giver);
  const std::int64_t count = given.count / member_count();
  auto cut = std::make_shared<Cut>();
  cut->channel_of = {0};
  if (count > 0) {
    append_slices(
        cut->slices[Lane{}],
        {1,
         count,
         Lane{},
         {{0, given.first / member_count(), count}, {0, taken.first / member_count(), count}}},
        sizes_);
  }
  return known = cut;
}

}  // namespace kernbench::ccl
