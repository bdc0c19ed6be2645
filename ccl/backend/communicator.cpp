#include "ccl/backend/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ccl/algorithms/pairs.h"
#include "ccl/backend/request_checks.h"
#include "ccl/core/config_rules.h"
#include "ccl/core/lower_bound.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

using distributed::Block;
using distributed::CollectiveCall;
using distributed::CollectiveKind;

struct GroupCommunicator::Meeting {
  PlannedCall call;
  int arrived = 0;
  int planned = 0;
  int finished = 0;
  std::shared_ptr<LaneQueues> queues = nullptr;
  Reduction reduction = {};
  std::vector<int> sips = {};  // by member
  const Protocol* protocol = nullptr;
  Time began{0};  // when all had called
  Time bound{0};  // lower bound of its time
  std::int64_t open_messages = 0;
  std::optional<Time> by_model = {};  // of members that are not alike: they take so long

  std::string_view name() const { return call.settings().algorithm->name; }
  // A protocol's times are those of all its messages, so that it has no slots for small ones.
  bool is_eager() const { return protocol == nullptr && !call.may_use_slots(); }
};

// The data that the launch's kernels refer to.
struct GroupCommunicator::Launch {
  std::shared_ptr<const Meeting> meeting;
  Programs programs;
  std::vector<Tensor> uses;
};

namespace {

constexpr Algorithm kMessage{.name = "pairs", .plan = plan_pairs};

const Block* find_block(const CollectiveCall& request) {
  const std::vector<Block>& blocks = request.gives.empty() ? request.takes : request.gives;
  return blocks.empty() ? nullptr : &blocks.front();
}

Tensor barrier_token(RuntimeContext& torch, int device) {
  const Tensor token(runtime::make_device_storage(
      shared_simulation_of(torch), device, {1},
      {.dtype = DType::f32, .dp = DPPolicy::on_one_pe(), .name = "barrier"}));
  runtime::mark_memory(token, MemoryKind::communication);
  runtime::fill(*token.storage(), 0);
  return token;
}

}  // namespace

GroupCommunicator::GroupCommunicator(RuntimeContext& torch, const KernelLauncher& launcher,
                                     std::vector<int> ranks, std::string description,
                                     std::shared_ptr<CutCache> cuts,
                                     std::shared_ptr<JointStarts> starts, bool is_default)
    : torch_(torch),
      launcher_(launcher),
      ranks_(std::move(ranks)),
      devices_(
          GroupDevices::of(launcher.layout(), ranks_, simulation_of(torch).machine().folding())),
      cuts_(std::move(cuts)),
      starts_(std::move(starts)),
      is_default_(is_default),
      plans_(std::make_shared<PlanCache>(devices_.shape(torch.topology()))),
      choice_(torch.topology(), launcher.config(), plans_->shape(), devices_.sips,
              std::move(description)) {
  choice_.check_configured();
}

// Calls

void GroupCommunicator::check(const CollectiveCall& request) const {
  if (!has_single_driver()) return check_blocks(request);
  check_for_pes(request, static_cast<int>(devices_.pes.size()));
  for (const auto* blocks : {&request.gives, &request.takes}) {
    for (const Block& block : *blocks) launcher_.check_pe_shards(block.tensor);
  }
}

// The bytes of the block that a rank gives to, or takes from, each other one.
Bytes GroupCommunicator::count_bytes(const CollectiveCall& request) const {
  const Block* block = find_block(request);
  if (block == nullptr) return 0;
  const Bytes bytes = block->count * size_of(block->tensor.dtype());
  return has_single_driver() ? bytes / static_cast<Bytes>(devices_.pes.size()) : bytes;
}

Moved GroupCommunicator::moved_by(const CollectiveCall& request) const {
  const Block* block = find_block(request);
  const Bytes bytes = count_bytes(request);
  if (block == nullptr || has_single_driver()) return {.bytes = bytes, .root = request.root};
  return moved_of(torch_.topology(), block->tensor, bytes, request.root);
}

const Algorithm& GroupCommunicator::algorithm_for(const CollectiveCall& request) {
  const Moved moved = moved_by(request);
  const Reproducible level = request.reproducible;
  const bool is_open = level == Reproducible::run || level == Reproducible::ranks;
  const Algorithm& chosen = is_open ? choice_.choose(request.kind, moved)
                                    : choice_.choose_invariant(request.kind, moved, level);
  if (!serves(chosen, request.kind)) {
    throw CollectiveError("KB-C012",
                          "{}: the algorithm '{}' that ccl.yaml chooses is a {}, no {}; choose "
                          "another one for torch.distributed",
                          traits_of(request.kind).name, chosen.name, chosen.collective,
                          traits_of(request.kind).name);
  }
  // A kernel adds up.
  const bool suits = chosen.kernel == nullptr || request.op == ReduceOp::sum;
  return suits ? chosen : choice_.best(request.kind, moved);
}

distributed::Communicator::RunsBy GroupCommunicator::runs_by(const CollectiveCall& request) {
  if (request.kind == CollectiveKind::barrier) {
    return has_nobody_to_wait_for() ? RunsBy{} : RunsBy{barrier_algorithm().name};
  }
  const Algorithm& algorithm = algorithm_for(request);
  const Bytes bytes = count_bytes(request);
  return {algorithm.name, choice_.is_configured(request.kind, algorithm, bytes),
          choice_.number_of_rule(request.kind, bytes)};
}

const Algorithm& GroupCommunicator::barrier_algorithm() {
  return choice_.best_of_barriers();
}

void GroupCommunicator::run(const CollectiveCall& call) {
  if (call.kind == CollectiveKind::barrier) {  // an all_reduce of one element, as NCCL does it
    if (has_nobody_to_wait_for()) return;
    CollectiveCall all_reduce = call;
    all_reduce.kind = CollectiveKind::all_reduce;
    const int device = ranks_[static_cast<std::size_t>(call.rank)];
    all_reduce.gives = all_reduce.takes = {distributed::whole(barrier_token(torch_, device))};
    return run_planned(all_reduce, barrier_algorithm());
  }
  const Algorithm& algorithm = algorithm_for(call);
  if (algorithm.kernel != nullptr) {
    if (is_folded()) distributed::refuse_unlike(algorithm.name, "its kernel may read its rank");
    return run_kernels(call, algorithm, call.takes.front().tensor);
  }
  check(call);
  const bool has_root = distributed::traits_of(call.kind).root != distributed::Root::none;
  if (is_folded() && has_root) return run_by_model(call, algorithm);
  run_planned(call, algorithm);
}

void GroupCommunicator::run_planned(const CollectiveCall& call, const Algorithm& algorithm) {
  const std::shared_ptr<Meeting> meeting = meet(call, algorithm);
  if (meeting->by_model) {
    meeting->call.requests[static_cast<std::size_t>(call.rank)] = {};
    sleep_for(call, *meeting->by_model);
    if (++meeting->finished == caller_count()) meetings_.erase(call.operation);
    return;
  }
  const auto launch = std::make_shared<Launch>(Launch{meeting, {}, {}});
  const int members = has_single_driver() ? meeting->call.member_count() : 1;
  for (int i = 0; i < members; ++i) {
    launch->programs.merge(meeting->call.make_programs(call.rank + i));
  }
  meeting->planned += 1;
  for (const auto* blocks : {&call.gives, &call.takes}) {
    for (const Block& block : *blocks) launch->uses.push_back(block.tensor);
  }
  const std::int64_t open = this->launch(launch, call.operation);
  if (writes(call, call.rank)) mark_replicated(call.takes);
  // A member that goes on must not find its tensors shared with those that do not yet: autograd
  // would copy a gradient.
  if (meeting->planned == caller_count()) {
    meeting->call.requests[static_cast<std::size_t>(call.rank)] = {};
  }
  finish(*meeting, call.operation, open);
}

void GroupCommunicator::transfer(std::uint64_t operation, const Block& source,
                                 const Block& target) {
  if (has_single_driver()) refuse_for_pes("messages", static_cast<int>(devices_.pes.size()));
  const GroupDevices ends = GroupDevices::of(source, target);
  const int taker = static_cast<int>(ends.sips.size()) - 1;
  std::shared_ptr<PlanCache>& plans = message_plans_[{ends.sips.front(), ends.sips.back()}];
  if (plans == nullptr) plans = std::make_shared<PlanCache>(ends.shape(torch_.topology()));
  const CallSettings settings{.algorithm = &kMessage,
                              .kind = CollectiveKind::all_to_all,
                              .slot_bytes = launcher_.config().ipcq().slot_bytes};
  const auto meeting =
      std::make_shared<Meeting>(Meeting{{torch_.topology(), cuts_, plans, ends, settings}});
  std::vector<CollectiveCall>& requests = meeting->call.requests;
  for (CollectiveCall& request : requests) request.kind = CollectiveKind::all_to_all;
  requests.front().gives = {source};
  requests.back().takes = {target};
  for (const CollectiveCall& request : requests) check_blocks(request);
  const Bytes bytes = source.count * size_of(source.tensor.dtype());
  meeting->protocol = launcher_.config().protocol_for(bytes);
  prepare(*meeting, ends.sips, message_queues_[meeting->protocol]);
  const auto launch = std::make_shared<Launch>(Launch{meeting, {}, {source.tensor, target.tensor}});
  for (int member = 0; member <= taker; ++member) {
    launch->programs.merge(meeting->call.make_programs(member));
  }
  KB_CHECK(this->launch(launch, operation) == 0, "a message has left messages");
  message_queues_[meeting->protocol].push_back(meeting->queues);
  mark_replicated({target});
  check_bound(*meeting);
}

// Plans

// Waits until all members have called.  The first one's algorithm is that of all.
std::shared_ptr<GroupCommunicator::Meeting> GroupCommunicator::meet(const CollectiveCall& call,
                                                                    const Algorithm& algorithm) {
  std::shared_ptr<Meeting>& entry = meetings_[call.operation];
  if (entry == nullptr) {
    const Protocol* const protocol =
        choice_.protocol_for(call.kind, count_bytes(call), bytes_of(call));
    auto settings = CallSettings::of(launcher_.config(), algorithm, call.kind,
                                     is_default_ && protocol == nullptr);
    settings.root = choice_.root_for(algorithm, call.kind,
                                     moved_of_level(moved_by(call), call.reproducible),
                                     call.reproducible);
    entry =
        std::make_shared<Meeting>(Meeting{{torch_.topology(), cuts_, plans_, devices_, settings}});
    entry->protocol = protocol;
  }
  const std::shared_ptr<Meeting> meeting = entry;
  meeting->call.requests[static_cast<std::size_t>(call.rank)] = call;
  // Plans depend on the tensors of all members, so the last one to call prepares the collective for
  // all.
  const bool is_last = ++meeting->arrived == caller_count();
  if (is_last) prepare(*meeting, devices_.sips, own_queues(*meeting));
  if (has_nobody_to_wait_for()) return meeting;
  try {
    starts_->wait(call.operation, is_last, [&] {
      return fmt::format("the other members of its group: {} of {} are there", meeting->arrived,
                         caller_count());
    });
  } catch (...) {
    meetings_.erase(call.operation);
    throw;
  }
  return meeting;
}

GroupCommunicator::QueuePool& GroupCommunicator::own_queues(const Meeting& meeting) {
  return own_queues_[{meeting.protocol, meeting.is_eager()}];
}

void GroupCommunicator::prepare(Meeting& meeting, const std::vector<int>& sips, QueuePool& own) {
  meeting.began = simulation_of(torch_).now();
  meeting.sips = sips;
  const std::vector<CollectiveCall>& requests = meeting.call.requests;
  if (has_single_driver()) {
    const bool is_known = requests.front().kind == CollectiveKind::all_reduce;
    meeting.bound = is_known ? compute_bound(bytes_of(requests.front())) : Time{0};
  } else if (!is_folded()) {
    meeting.bound = collective_lower_bound(torch_.topology(), sips, meeting.call.settings().kind,
                                           requests, meeting.call.ways());
  }
  meeting.call.prepare();
  if (is_folded() && !make_alike(meeting.call)) {
    meeting.by_model = time_of_unlike(meeting.call);
    return;
  }
  meeting.reduction = meeting.call.reduction();
  QueuePool& idle = meeting.call.uses_slots() ? slot_queues_ : own;
  if (!idle.empty()) {
    meeting.queues = std::move(idle.back());
    return idle.pop_back();
  }
  meeting.queues = std::make_shared<LaneQueues>(
      shared_simulation_of(torch_), meeting.call.uses_slots() ? &launcher_.layout() : nullptr,
      meeting.is_eager() ? launcher_.eager() : nullptr, meeting.protocol);
}

// Launches

std::int64_t GroupCommunicator::launch(const std::shared_ptr<Launch>& launch,
                                       std::uint64_t operation) {
  const Meeting& meeting = *launch->meeting;
  runtime::LaunchRequest request;
  request.name = meeting.name();
  request.operation = operation;
  request.is_collective = request.has_end = true;  // a plan's steps are counted
  request.uses = launch->uses;
  for (const auto& [pe, program] : launch->programs) request.pes.push_back(pe);
  if (request.pes.empty()) return 0;
  simulation_of(torch_).log(runtime::LogTopic::ccl, [&] {
    return fmt::format("{} runs '{}' on {} PEs", traits_of(meeting.call.settings().kind).name,
                       request.name, request.pes.size());
  });
  request.body = [launch](tl::Context& tl) {
    const sim::PeLocation at = tl.location();
    const Meeting& of = *launch->meeting;
    const Program& program = launch->programs.at(at);
    const NodePorts ports = of.queues->ports(
        at, [&](int node) { return of.call.pe_of(node, program.lane); }, of.sips, of.reduction.op);
    if (of.protocol != nullptr) tl.spend(of.protocol->start);
    run_steps(tl, *program.steps, ports, of.reduction, of.call.request(program.member));
  };
  return runtime::launch(simulation_of(torch_), std::move(request));
}

// The last member to finish checks the messages and the time of the whole collective.
void GroupCommunicator::finish(Meeting& meeting, std::uint64_t operation,
                               std::int64_t open_messages) {
  meeting.open_messages += open_messages;
  if (++meeting.finished < caller_count()) return;
  KB_CHECK(meeting.open_messages == 0, "{} has left {} messages", meeting.name(),
           meeting.open_messages);
  (meeting.call.uses_slots() ? slot_queues_ : own_queues(meeting)).push_back(meeting.queues);
  check_bound(meeting);
  meetings_.erase(operation);
}

void GroupCommunicator::check_bound(const Meeting& meeting) const {
  const Time took = simulation_of(torch_).now() - meeting.began;
  KB_CHECK(took >= meeting.bound, "{} took {}, less than the lower bound of {}", meeting.name(),
           to_string(took), to_string(meeting.bound));
}

// Kernels

const KernelLauncher& GroupCommunicator::kernels() {
  const bool is_world = is_default_ && caller_count() == launcher_.layout().world_size();
  if (is_world || has_single_driver()) return launcher_;
  if (own_kernels_ == nullptr) {
    own_kernels_ = std::make_unique<const KernelLauncher>(launcher_, devices_.sips);
  }
  return *own_kernels_;
}

void GroupCommunicator::run_kernels(const distributed::CollectiveCall& call,
                                    const Algorithm& algorithm, const Tensor& x) {
  kernels().check_placement(algorithm, x);
  kernels_under_way_.try_emplace(call.operation, KernelsUnderWay{simulation_of(torch_).now()});
  const std::int64_t open = kernels().launch(algorithm, std::span(&x, 1), call.operation);
  finish_kernels(call, algorithm, open, x.numel() * size_of(x.dtype()));
}

// The last member to finish compares the time with the lower bound.
void GroupCommunicator::finish_kernels(const distributed::CollectiveCall& call,
                                       const Algorithm& algorithm, std::int64_t open_messages,
                                       Bytes bytes) {
  KernelsUnderWay& under_way = kernels_under_way_.at(call.operation);
  under_way.open_messages += open_messages;
  if (++under_way.finished < caller_count()) return;
  const KernelsUnderWay collective = under_way;
  kernels_under_way_.erase(call.operation);
  kernels().check_queues(algorithm, call.operation, collective.open_messages);
  const Time took = simulation_of(torch_).now() - collective.first_start;
  const Time bound = compute_bound(bytes);
  if (took >= bound) return;
  throw CollectiveError("KB-C014",
                        "all_reduce of {} B by '{}' took {}, less than the {} that any algorithm "
                        "needs: it cannot have brought the values of all ranks to all others",
                        bytes, algorithm.name, to_string(took), to_string(bound));
}

// Returns the lower bound of an all_reduce over all members.
Time GroupCommunicator::compute_bound(Bytes bytes) const {
  if (!has_single_driver()) {
    return collective_lower_bound(torch_.topology(), devices_.sips, CollectiveKind::all_reduce,
                                  bytes, 0);
  }
  const int ranks = static_cast<int>(devices_.pes.size());
  return pe_all_reduce_lower_bound(torch_.topology(), ranks, bytes / ranks);
}

}  // namespace kernbench::ccl
