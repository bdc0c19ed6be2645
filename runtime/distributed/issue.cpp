// How a call of torch.distributed becomes work: arrived, compared, and run by the backend.

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "runtime/context/runtime_context.h"
#include "runtime/distributed/misuse.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::distributed {

using runtime::FiberLocal;

namespace {

// What a rank is in, for reports.
struct Underway {
  const CollectiveFingerprint& fingerprint;
  std::uint64_t sequence;

  static std::string text(const void* object) {
    const auto& underway = *static_cast<const Underway*>(object);
    return describe(underway.fingerprint, underway.sequence);
  }
};

// Shows in reports which collective a rank is in, as long as it is in it.
class InCollective {
 public:
  InCollective(FiberLocal& local, const CollectiveFingerprint& fingerprint, std::uint64_t sequence)
      : local_(local), underway_{fingerprint, sequence} {
    local_.collective = {&underway_, &Underway::text};
  }
  ~InCollective() { local_.collective = {}; }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  FiberLocal& local_;
  const Underway underway_;
};

std::vector<Tensor> tensors_of(const std::vector<Block>& blocks) {
  std::vector<Tensor> tensors;
  for (const Block& block : blocks) {
    if (tensors.empty() || tensors.back().storage() != block.tensor.storage()) {
      tensors.push_back(block.tensor);
    }
  }
  return tensors;
}

}  // namespace

// nullopt: the caller is no member, and has been warned.
std::optional<DistributedContext::Call> DistributedContext::begin(std::string_view function,
                                                                  const ProcessGroup& group) const {
  backend();
  if (local().kind == FiberLocal::Kind::kernel) {
    throw CollectiveError("KB-R012",
                          fmt::format("{} called inside kernel '{}'", function, local().kernel));
  }
  const int callers = world_->size();
  if (callers == 1 && backend_->world_size() > 1 && local().rank > 0) {
    throw CollectiveError(
        "KB-C006", fmt::format("rank {} called {}, but the ranks of this group are {} PEs, for "
                               "which a single driver calls: call it outside spawn(), or take "
                               "world_size out of ccl.yaml",
                               local().rank, function, backend_->world_size()));
  }
  if (local().rank >= callers) {
    throw CollectiveError("KB-C006",
                          fmt::format("rank {} is not a member of the default group of {} "
                                      "ranks",
                                      local().rank, callers));
  }
  if (!group.is_default() && !group.is_non_member()) registered(group);
  Group* const found = find(group);
  if (found != nullptr) return Call{found, *found->rank_of(local().rank)};
  fmt::print(stderr,
             "kernbench: warning: Running {} on global rank {} which does not belong to the given "
             "group.\n",
             function, local().rank);
  return std::nullopt;
}

CollectiveCall DistributedContext::arrive(const Call& call,
                                          const CollectiveFingerprint& fingerprint,
                                          const CollectiveRequest& request) {
  if (local().kind == FiberLocal::Kind::unbound) {  // no spawn(): nobody else will come
    for (int rank = 0; rank < call.group->size(); ++rank) {
      if (rank != call.rank) call.group->ledger.leave(rank, false);
    }
  }
  runtime::Simulation& simulation = torch_.simulation();
  const CollectiveCall arrived = call.group->ledger.arrive(
      call.rank, fingerprint, request.gives, request.takes, simulation.next_operation());
  simulation.begin(arrived.operation);
  return arrived;
}

// A rank's collectives of a group run one after the other, as on a stream of their own.
Work DistributedContext::issue(const Call& call, CollectiveFingerprint fingerprint,
                               CollectiveRequest request, bool async_op) {
  fingerprint.is_async = async_op;
  const CollectiveCall arrived = arrive(call, fingerprint, request);
  std::shared_ptr<Work::State>& last = call.group->last[static_cast<std::size_t>(call.rank)];
  const auto wait_for_previous = [previous = last] {
    if (previous == nullptr) return;
    previous->wait([&] { return fmt::format("{} before it", previous->description); });
  };
  if (!async_op) {
    const InCollective in(torch_.simulation().local(), fingerprint, arrived.sequence);
    wait_for_previous();
    call.group->communicator->run(arrived, request);
    return {};
  }
  const std::shared_ptr<Work::State> work = make_work(describe(fingerprint, arrived.sequence));
  work->sequence = arrived.sequence;
  work->tensors = tensors_of(request.takes);
  for (const auto* blocks : {&request.gives, &request.takes}) {
    for (const Tensor& tensor : tensors_of(*blocks)) work->keep(tensor);
  }
  last = work;
  start(work, [fingerprint, arrived, wait_for_previous, group = call.group->shared_from_this(),
               request = std::move(request), this] {
    const InCollective in(torch_.simulation().local(), fingerprint, arrived.sequence);
    wait_for_previous();
    group->communicator->run(arrived, request);
  });
  return Work(work);
}

std::shared_ptr<Work::State> DistributedContext::make_work(std::string description) {
  auto work = std::make_shared<Work::State>(torch_.simulation());
  work->rank = local().rank;
  work->description = std::move(description);
  std::vector<std::shared_ptr<Work::State>>& own = works_[work->rank];
  std::erase_if(own, [](const auto& earlier) {
    return earlier->is_done && (earlier->is_waited_for || earlier->failure == nullptr);
  });
  own.push_back(work);
  return work;
}

// On a fiber of its own, which acts for the rank.
void DistributedContext::start(const std::shared_ptr<Work::State>& work,
                               std::function<void()> body) {
  const auto fiber_local = std::make_shared<FiberLocal>();
  fiber_local->kind = FiberLocal::Kind::work;
  fiber_local->rank = local().rank;
  fiber_local->device = local().device;
  torch_.simulation().fibers().spawn(
      runtime::FiberName(runtime::write_name), std::move(body), fiber_local.get(),
      [work, fiber_local](runtime::Fiber&, const runtime::FiberResult& result) {
        work->finish(result.how == runtime::FiberResult::How::threw ? result.exception : nullptr);
      });
}

// The failure of a work that nobody has waited for, which may be why others wait for ever.
std::exception_ptr DistributedContext::unnoticed_failure() const {
  for (const auto& [rank, works] : works_) {
    for (const std::shared_ptr<Work::State>& work : works) {
      if (work->failure != nullptr) return work->failure;
    }
  }
  return nullptr;
}

// REQUIRES: the caller is a member of the group
std::vector<std::any> DistributedContext::exchange(std::string_view function, const Call& call,
                                                   std::any own, const std::optional<int>& root,
                                                   Location location) {
  const CollectiveFingerprint fingerprint{
      .function = function, .kind = CollectiveKind::objects, .root = root, .location = location};
  const CollectiveCall arrived = arrive(call, fingerprint, {});
  const InCollective in(torch_.simulation().local(), fingerprint, arrived.sequence);
  std::shared_ptr<ObjectExchange>& entry = object_exchanges_[arrived.operation];
  if (entry == nullptr) entry = std::make_shared<ObjectExchange>(call.group->size());
  const std::shared_ptr<ObjectExchange> meeting = entry;
  meeting->objects[static_cast<std::size_t>(call.rank)] = std::move(own);
  if (++meeting->arrived == call.group->size()) {
    object_exchanges_.erase(arrived.operation);
    for (runtime::Completion* waiter : std::exchange(meeting->waiters, {})) waiter->signal();
    return meeting->objects;
  }
  runtime::Completion done(torch_.simulation());
  meeting->waiters.push_back(&done);
  try {
    torch_.simulation().wait(done, [&] { return std::string("the other ranks' objects"); });
  } catch (...) {
    std::erase(meeting->waiters, &done);
    throw;
  }
  return meeting->objects;
}

}  // namespace kernbench::distributed
