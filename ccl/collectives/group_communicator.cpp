#include "ccl/collectives/group_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ccl/lower_bound.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

using distributed::Block;
using distributed::CollectiveKind;
using distributed::CollectiveRequest;

struct GroupCommunicator::Meeting {
  explicit Meeting(int size)
      : requests(static_cast<std::size_t>(size)),
        layouts(static_cast<std::size_t>(size)),
        sips(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(sips.size()); }
  const CollectiveRequest& request(int member) const {
    return requests[static_cast<std::size_t>(member)];
  }

  // The layout of the tensor that was looked up last, since blocks are mostly parts of one.
  struct Lies {
    const Tensor::Storage* tensor = nullptr;
    std::shared_ptr<const TensorLayout> layout;
  };

  std::vector<CollectiveRequest> requests;   // by member
  std::vector<std::array<Lies, 2>> layouts;  // by member: of what it takes, and of what it gives
  std::vector<int> sips;                     // by member
  CollectiveKind kind = CollectiveKind::barrier;
  int arrived = 0;
  int finished = 0;
  runtime::Event all_are_there;
  MemberRing ring;
  std::vector<SharedCut> cuts;  // for a ring or a chain
  std::shared_ptr<LaneQueues> queues;
  Time began{0};  // when all had called
  Time bound{0};  // lower bound of its time
  std::int64_t open_messages = 0;
};

// The data that the launch's kernels refer to.
struct GroupCommunicator::Launch {
  std::shared_ptr<const Meeting> meeting;
  std::vector<int> members;      // members that it runs for
  std::vector<LaneSteps> steps;  // in the order of `members`
};

namespace {

std::string_view kernel_name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::reduce:
      return "reduce";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::gather:
      return "gather";
    case CollectiveKind::scatter:
      return "scatter";
    default:
      return "all_reduce";
  }
}

// Calls visit(tensor) once for consecutive blocks of one tensor, which is the common case.
template <class Visit>
void for_each_tensor(const std::vector<Block>& blocks, Visit visit) {
  const Tensor::Storage* last = nullptr;
  for (const Block& block : blocks) {
    if (block.tensor.storage().get() != std::exchange(last, block.tensor.storage().get())) {
      visit(block.tensor);
    }
  }
}

void check_lies_on_one_sip(const Tensor& x) {
  const std::vector<ShardInfo>& shards = x.shards();
  if (shards.front().sip == shards.back().sip) return;
  throw CollectiveError(
      "KB-C013",
      fmt::format("tensor '{}' lies on {} SIPs, but a rank is one SIP; num_sips is for ranks that "
                  "are PEs (world_size in ccl.yaml)",
                  x.name(), shards.back().sip - shards.front().sip + 1));
}

// Refuses to write only a part of a partial tensor, since the whole becomes replicated.
void check_taken(const std::vector<Block>& takes) {
  for_each_tensor(takes, [&](const Tensor& x) {
    if (!is_partial(x.dp())) return;
    std::int64_t taken = 0;
    for (const Block& other : takes) {
      if (other.tensor.storage() == x.storage()) taken += other.count;
    }
    if (taken == x.numel()) return;
    throw CollectiveError(
        "KB-C013", fmt::format("tensor '{}' ({}) takes {} of its {} elements: of one whose holders "
                               "have summands, all must be taken at a time; use another DPPolicy",
                               x.name(), to_string(x.dp()), taken, x.numel()));
  });
}

void check(const CollectiveRequest& request) {
  for_each_tensor(request.gives, check_lies_on_one_sip);
  for_each_tensor(request.takes, check_lies_on_one_sip);
  check_taken(request.takes);
}

int sip_of(const CollectiveRequest& request) {
  return (request.gives.empty() ? request.takes : request.gives).front().tensor.device();
}

DType dtype_of(const CollectiveRequest& request) {
  return (request.gives.empty() ? request.takes : request.gives).front().tensor.dtype();
}

void mark_replicated(const std::vector<Block>& takes) {
  for_each_tensor(takes, [](const Tensor& x) { runtime::mark_replicated(*x.storage()); });
}

}  // namespace

Tensor barrier_token(RuntimeContext& torch, int device) {
  const Tensor token(runtime::make_device_storage(
      torch.shared_simulation(), device, {1},
      {.dtype = DType::f32, .dp = DPPolicy::replicated(), .name = "barrier"}));
  runtime::fill(*token.storage(), 0);
  return token;
}

GroupCommunicator::GroupCommunicator(RuntimeContext& torch, std::vector<int> ranks,
                                     std::shared_ptr<CutCache> cuts)
    : torch_(torch), ranks_(std::move(ranks)), cuts_(std::move(cuts)) {}

// Calls

void GroupCommunicator::run(const distributed::CollectiveCall& call) {
  if (call.kind == CollectiveKind::barrier) {  // an all_reduce of one element, as NCCL does it
    const auto self = static_cast<std::size_t>(call.rank);
    distributed::CollectiveCall all_reduce = call;
    all_reduce.kind = CollectiveKind::all_reduce;
    all_reduce.gives = all_reduce.takes = {distributed::whole(barrier_token(torch_, ranks_[self]))};
    return run(all_reduce);
  }
  check(call);
  const std::shared_ptr<Meeting> meeting = meet(call);
  const auto launch =
      std::make_shared<Launch>(Launch{meeting, {call.rank}, {steps_of(*meeting, call.rank)}});
  const std::int64_t open = this->launch(launch, call.operation);
  if (writes(call, call.rank)) mark_replicated(call.takes);
  finish(*meeting, call.operation, open);
}

void GroupCommunicator::transfer(std::uint64_t operation, const Block& source,
                                 const Block& target) {
  const bool is_local = source.tensor.device() == target.tensor.device();
  const auto meeting = std::make_shared<Meeting>(is_local ? 1 : 2);
  meeting->kind = CollectiveKind::all_to_all;
  meeting->requests.front().gives = {source};
  meeting->requests.back().takes = {target};
  for (const CollectiveRequest& request : meeting->requests) check(request);
  meeting->sips.front() = source.tensor.device();
  meeting->sips.back() = target.tensor.device();
  prepare(*meeting);
  const int giver = 0;
  const int taker = meeting->size() - 1;
  const auto launch = std::make_shared<Launch>(Launch{meeting, {}, {}});
  for (int member = 0; member < meeting->size(); ++member) {
    const std::vector<std::shared_ptr<const Cut>> nothing(meeting->sips.size());
    PairCuts cuts{nothing, nothing};
    const std::shared_ptr<const Cut> cut = pair_cut(*meeting, giver, taker);
    if (member == giver) cuts.out[static_cast<std::size_t>(taker)] = cut;
    if (member == taker) cuts.in[static_cast<std::size_t>(giver)] = cut;
    launch->members.push_back(member);
    launch->steps.push_back(pair_steps({meeting->request(member), meeting->ring, member}, cuts));
  }
  if (meeting->sips.front() > meeting->sips.back()) {  // a launch is in the order of SIPs
    std::ranges::reverse(launch->members);
    std::ranges::reverse(launch->steps);
  }
  KB_CHECK(this->launch(launch, operation) == 0, "a message has left messages");
  idle_queues_.push_back(meeting->queues);
  mark_replicated({target});
  check_bound(*meeting);
}

// Waits until all members have called.
std::shared_ptr<GroupCommunicator::Meeting> GroupCommunicator::meet(
    const distributed::CollectiveCall& call) {
  const int size = static_cast<int>(ranks_.size());
  std::shared_ptr<Meeting>& entry = meetings_[call.operation];
  if (entry == nullptr) entry = std::make_shared<Meeting>(size);
  const std::shared_ptr<Meeting> meeting = entry;
  const auto self = static_cast<std::size_t>(call.rank);
  meeting->kind = call.kind;
  meeting->requests[self] = call;
  meeting->sips[self] = sip_of(call);
  if (++meeting->arrived == size) {
    plan(*meeting);
    meeting->all_are_there.notify_all();
    return meeting;
  }
  try {
    meeting->all_are_there.wait(torch_.simulation(), [&] {
      return fmt::format("the other members of its group: {} of {} are there", meeting->arrived,
                         size);
    });
  } catch (...) {
    meetings_.erase(call.operation);
    throw;
  }
  return meeting;
}

// Plans

void GroupCommunicator::prepare(Meeting& meeting) {
  meeting.began = torch_.simulation().now();
  meeting.bound =
      collective_lower_bound(torch_.topology(), meeting.sips, meeting.kind, meeting.requests);
  meeting.ring = member_ring(torch_.topology(), meeting.sips);
  meeting.queues = take_queues();
}

void GroupCommunicator::plan(Meeting& meeting) {
  prepare(meeting);
  switch (meeting.kind) {
    case CollectiveKind::all_reduce:
      meeting.cuts.push_back(shared_cut(meeting, kNobody, meeting.size()));
      break;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
      meeting.cuts.push_back(shared_cut(meeting, kNobody, 1));
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      for (int of = 0; of < meeting.size(); ++of) {
        meeting.cuts.push_back(shared_cut(meeting, of, 1));
      }
      break;
    default:
      break;  // pairs: each member by itself
  }
}

// Returns the layout of a member's block for or from `of`.
BlockLayout GroupCommunicator::layout_of(Meeting& meeting, int member, bool gives, int of) {
  const CollectiveRequest& request = meeting.request(member);
  const Block& block = *block_for(gives ? request.gives : request.takes, of);
  Meeting::Lies& known = meeting.layouts[static_cast<std::size_t>(member)][gives ? 1 : 0];
  if (known.tensor != block.tensor.storage().get()) {
    known = {block.tensor.storage().get(), cuts_->layout_of(block.tensor)};
  }
  return {known.layout, block.first};
}

// Returns the cut of `of`'s blocks for or from all; of every member's block if `of` is kNobody.
SharedCut GroupCommunicator::shared_cut(Meeting& meeting, int of, int parts) {
  const auto size = static_cast<std::size_t>(meeting.size());
  SharedCut shared{nullptr, std::vector<int>(size, kNobody), std::vector<int>(size, kNobody)};
  std::vector<BlockLayout> layouts;
  std::int64_t count = 0;
  const auto note = [&](int member, bool gives) {
    BlockLayout layout = layout_of(meeting, member, gives, of);
    const auto known = std::ranges::find(layouts, layout);
    const auto index = static_cast<int>(known - layouts.begin());
    if (known == layouts.end()) layouts.push_back(std::move(layout));
    const CollectiveRequest& request = meeting.request(member);
    count = block_for(gives ? request.gives : request.takes, of)->count;
    return index;
  };
  for (int member = 0; member < meeting.size(); ++member) {
    const bool is_own = of == kNobody || member == of;
    const bool gives = is_own || meeting.kind == CollectiveKind::reduce_scatter;
    const bool takes = is_own || meeting.kind == CollectiveKind::all_gather;
    if (gives) shared.gives[static_cast<std::size_t>(member)] = note(member, true);
    if (takes) shared.takes[static_cast<std::size_t>(member)] = note(member, false);
  }
  shared.cut = cuts_->cut(layouts, count, dtype_of(meeting.requests.front()), parts);
  return shared;
}

// Returns null if the giver has no block for the taker.
std::shared_ptr<const Cut> GroupCommunicator::pair_cut(Meeting& meeting, int giver, int taker) {
  const CollectiveRequest& from = meeting.request(giver);
  const CollectiveRequest& to = meeting.request(taker);
  if (meeting.kind == CollectiveKind::gather && taker != to.root) return nullptr;
  if (meeting.kind == CollectiveKind::scatter && giver != from.root) return nullptr;
  const Block& given = *block_for(from.gives, taker);
  std::vector<BlockLayout> layouts = {layout_of(meeting, giver, true, taker)};
  BlockLayout target = layout_of(meeting, taker, false, giver);
  if (!(target == layouts.front())) layouts.push_back(std::move(target));
  return cuts_->cut(layouts, given.count, given.tensor.dtype(), 1);
}

LaneSteps GroupCommunicator::steps_of(Meeting& meeting, int self) {
  const MemberView view{meeting.request(self), meeting.ring, self};
  switch (meeting.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return ring_steps(view, meeting.cuts);
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
      return chain_steps(view, meeting.cuts.front());
    default:
      break;
  }
  PairCuts cuts;
  for (int other = 0; other < meeting.size(); ++other) {
    cuts.out.push_back(pair_cut(meeting, self, other));
    cuts.in.push_back(pair_cut(meeting, other, self));
  }
  return pair_steps(view, cuts);
}

// Launches

std::shared_ptr<LaneQueues> GroupCommunicator::take_queues() {
  if (idle_queues_.empty()) return std::make_shared<LaneQueues>(torch_.shared_simulation());
  std::shared_ptr<LaneQueues> queues = std::move(idle_queues_.back());
  idle_queues_.pop_back();
  return queues;
}

std::int64_t GroupCommunicator::launch(std::shared_ptr<Launch> launch, std::uint64_t operation) {
  const Meeting& meeting = *launch->meeting;
  runtime::LaunchRequest request;
  request.name = kernel_name_of(meeting.kind);
  request.operation = operation;
  request.is_collective = true;
  for (std::size_t i = 0; i < launch->members.size(); ++i) {
    const int member = launch->members[i];
    for (const auto& [lane, steps] : launch->steps[i]) {
      if (steps.empty()) continue;
      const int sip = meeting.sips[static_cast<std::size_t>(member)];
      request.pes.push_back({sip, lane.cube, lane.pe});
    }
    for (const auto* blocks : {&meeting.request(member).gives, &meeting.request(member).takes}) {
      for (const Block& block : *blocks) request.uses.push_back(block.tensor);
    }
  }
  if (request.pes.empty()) return 0;
  request.body = [launch](tl::Context& tl) {
    const sim::PeLocation at = tl.location();
    const Meeting& of = *launch->meeting;
    std::size_t i = 0;
    while (of.sips[static_cast<std::size_t>(launch->members[i])] != at.sip) ++i;
    const auto peer = [&](int member) {
      return sim::PeLocation{of.sips[static_cast<std::size_t>(member)], at.cube, at.pe};
    };
    const MemberPorts ports{
        [&](int member) { return of.queues->queue(at, peer(member)).ends().out; },
        [&](int member) { return of.queues->queue(peer(member), at).ends().in; }};
    run_steps(tl, launch->steps[i].at({at.cube, at.pe}), ports,
              {of.request(launch->members[i]).op, of.size()});
  };
  return runtime::run_kernel(torch_.simulation(), std::move(request));
}

// The last member to finish checks the messages and the time of the whole collective.
void GroupCommunicator::finish(Meeting& meeting, std::uint64_t operation,
                               std::int64_t open_messages) {
  meeting.open_messages += open_messages;
  if (++meeting.finished < meeting.size()) return;
  KB_CHECK(meeting.open_messages == 0, "{} has left {} messages", kernel_name_of(meeting.kind),
           meeting.open_messages);
  idle_queues_.push_back(meeting.queues);
  check_bound(meeting);
  meetings_.erase(operation);
}

void GroupCommunicator::check_bound(const Meeting& meeting) const {
  const Time took = torch_.simulation().now() - meeting.began;
  KB_CHECK(took >= meeting.bound, "{} took {}, less than the lower bound of {}",
           kernel_name_of(meeting.kind), to_string(took), to_string(meeting.bound));
}

}  // namespace kernbench::ccl
