// torch.distributed's point-to-point messages.

#include <fmt/format.h>

#include <any>
#include <utility>

#include "runtime/distributed/aliasing.h"
#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/distributed/misuse.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::distributed {

namespace {

[[noreturn]] void refuse_self(bool is_send) {
  wrong_argument(is_send ? "Invalid destination rank: destination rank should not be the same as "
                           "the rank of the current process."
                         : "Invalid source rank: source rank should not be the same as the rank of "
                           "the current process.");
}

// Returns the tensor that a message reads or writes.  A rank that blocks in send() cannot write to
// the tensor meanwhile, so the tensor itself is used; an isend() uses a snapshot of its present
// values.
Tensor prepare_tensor(const Message& message, const Tensor& x) {
  runtime::check_may_touch(x, message.is_send ? runtime::Touch::reads : runtime::Touch::writes,
                           [&] { return describe(message); });
  return message.is_send && message.event.is_async ? runtime::take_snapshot(x) : x;
}

void move(runtime::Simulation& simulation, Communicator& communicator, const Message& send,
          const Message& receive) {
  const Tensor& from = send.block.tensor;
  const Tensor& to = receive.block.tensor;
  if (from.dtype() != to.dtype() || send.block.count > receive.block.count) {
    throw CollectiveMismatchError("KB-C022",
                                  "rank {} sends {} elements of {} to rank {}, which receives at "
                                  "most {} of {}\n  rank {}: {}\n  rank {}: {}",
                                  send.own, send.block.count, torch_name_of(from.dtype()),
                                  receive.own, receive.block.count, torch_name_of(to.dtype()),
                                  send.own, describe(send), receive.own, describe(receive));
  }
  const Communicator::RunsBy by = communicator.runs_by({.kind = CollectiveKind::all_to_all});
  if (!by.algorithm.empty()) {
    simulation.note_algorithm(
        {.collective = "send", .algorithm = by.algorithm, .is_configured = by.is_configured});
  }
  const std::uint64_t operation = simulation.next_operation();
  simulation.begin(operation);
  const runtime::CollectiveUnderWay at_sender(simulation.activity(), from.device(),
                                              send.event.group);
  const runtime::CollectiveUnderWay at_receiver(simulation.activity(), to.device(),
                                                receive.event.group);
  communicator.transfer(operation, send.block,
                        {.tensor = to, .first = receive.block.first, .count = send.block.count});
}

}  // namespace

// Outside of spawn() no other rank exists, unless a single driver acts for all of them.
void DistributedContext::State::check_peer_can_call(const Message& message) const {
  const bool is_alone =
      local().kind == runtime::FiberLocal::Kind::unbound && !backend->has_single_driver();
  if (!is_alone || message.event.peer == message.own) return;
  throw DeadlockError(
      "KB-C002",
      fmt::format("{}: no other rank was started, so none can {} it; spawn() the ranks",
                  describe(message), message.is_send ? "receive" : "send"),
      ExitCode::collective_misuse);
}

// Makes the message without the tensor or objects that it moves.
Message DistributedContext::State::make_message(const Group& group,
                                                const MessageCall& wanted) const {
  Message message{.event = {.function = wanted.function,
                            .location = wanted.location,
                            .group = group.number,
                            .tag = wanted.tag,
                            .is_async = !wanted.is_blocking},
                  .is_send = wanted.is_send,
                  .own = local().rank};
  if (wanted.is_send || wanted.peer || wanted.group_peer) {
    const int peer = to_group_rank(wanted.function, group, wanted.peer, wanted.group_peer);
    message.event.peer = group.ranks[static_cast<std::size_t>(peer)];
    // isend() and irecv() to oneself can meet, as torch allows; a blocking call would wait for
    // ever.
    if (message.event.peer == message.own && wanted.is_blocking) refuse_self(wanted.is_send);
  }
  return message;
}

// Sends and receives meet in the group's mailbox.
Work DistributedContext::State::post(const MessageCall& wanted, const Tensor& x,
                                     std::shared_ptr<std::any> objects) {
  Group* const group = group_of_caller(wanted.function, wanted.group);
  if (group == nullptr) return {};
  if (simulation->machine().folding().is_on()) {
    refuse_unlike(wanted.function, "each rank names a peer");
  }
  delay_call();
  const bool has_tensor = objects == nullptr;
  if (has_tensor) check_tensor(wanted.function, x);
  runtime::synchronize_current_stream(*simulation, has_tensor ? x.device() : local().device);
  refuse_if_failed(*group);
  Message message = make_message(*group, wanted);
  check_peer_can_call(message);
  if (has_tensor) {
    message.block = whole(wanted.version.defined() ? wanted.version : prepare_tensor(message, x));
    message.event.has_tensor = true;
    message.event.dtype = x.dtype();
    message.event.shape = x.shape();
  }
  message.objects = std::move(objects);
  const auto describe_it = [&] { return describe(message); };
  message.work = make_work(CallRecord(*simulation, message.event, describe_it), *group,
                           describe_it(), std::make_shared<runtime::Timeline>());
  // A send that carries a snapshot does not keep x in use: later writes to x cannot change it.
  if (has_tensor && message.block.tensor.storage() == x.storage()) {
    message.work->keep(x, !wanted.is_send);
  }
  const Work work(message.work, wanted.is_send ? std::vector<Tensor>() : std::vector{x});
  message.is_deferred = note_message(*group, message);
  const Mailbox::Address address = Mailbox::make_address(message);
  const auto earlier = message.is_deferred ? std::nullopt : group->mailbox.take_match(message);
  if (earlier) {
    deliver(*group, message, *earlier);
  } else {
    group->mailbox.put(std::move(message));
    settle_at_standstill(*group, address);
  }
  return work;
}

// The elements move on a fiber of their own, since the rank that came second need not wait.
void DistributedContext::State::deliver(Group& group, const Message& later,
                                        const Message& earlier) {
  const Message& send = later.is_send ? later : earlier;
  const Message& receive = later.is_send ? earlier : later;
  note_match(group, receive, send);
  runtime::RunLog* const run_log = simulation->run_log();
  const std::uint64_t flow = run_log == nullptr ? 0 : run_log->next_flow();
  for (const Message* side : {&send, &receive}) {
    side->work->record.started();
    side->work->record.is_flow(flow);
  }
  if (later.objects != nullptr) {
    *receive.objects = *send.objects;
    receive.work->source_rank = group.global_rank(*group.rank_of(send.own));
    for (const Message* side : {&send, &receive}) side->work->finish(nullptr);
    return;
  }
  start(later.work, [this, communicator = ensure_communicator(group), send, receive,
                     earlier = earlier.work, source = group.global_rank(*group.rank_of(send.own))] {
    std::exception_ptr failure;
    try {
      move(*simulation, *communicator, send, receive);
    } catch (const Error&) {
      failure = std::current_exception();
    }
    receive.work->source_rank = source;
    // One fiber serves both ends, so it completes the other end's Work as well.
    earlier->finish(failure);
    if (failure != nullptr) std::rethrow_exception(failure);
  });
}

Work DistributedContext::isend(const Tensor& x, int dst, const SendOptions& options,
                               Location location) {
  SendOptions all = options;
  all.dst = dst;
  return isend(x, all, location);
}

Work DistributedContext::isend(const Tensor& x, const SendOptions& options, Location location) {
  MessageCall call = sending("isend", options, location);
  call.is_blocking = false;
  return state_->post(call, x);
}

Work DistributedContext::irecv(const Tensor& x, std::optional<int> src, const RecvOptions& options,
                               Location location) {
  RecvOptions all = options;
  if (src) all.src = src;
  return irecv(x, all, location);
}

Work DistributedContext::irecv(const Tensor& x, const RecvOptions& options, Location location) {
  MessageCall call = receiving("irecv", options, location);
  call.is_blocking = false;
  return state_->post(call, x);
}

void DistributedContext::send(const Tensor& x, int dst, const SendOptions& options,
                              Location location) {
  SendOptions all = options;
  all.dst = dst;
  send(x, all, location);
}

void DistributedContext::send(const Tensor& x, const SendOptions& options, Location location) {
  const Work work = state_->post(sending("send", options, location), x);
  if (work) work.wait_on_host();
}

int DistributedContext::recv(const Tensor& x, std::optional<int> src, const RecvOptions& options,
                             Location location) {
  RecvOptions all = options;
  if (src) all.src = src;
  return recv(x, all, location);
}

int DistributedContext::recv(const Tensor& x, const RecvOptions& options, Location location) {
  const Work work = state_->post(receiving("recv", options, location), x);
  if (!work) return -1;
  work.wait_on_host();
  return work.source_rank();
}

std::vector<Work> DistributedContext::batch_isend_irecv(const std::vector<P2POp>& ops,
                                                        Location location) {
  if (ops.empty()) wrong_argument("list index out of range: batch_isend_irecv of no ops");
  for (const P2POp& op : ops) {
    if (op.op != PointToPoint::isend && op.op != PointToPoint::irecv) {
      wrong_argument(
          "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
          "``torch.distributed.irecv``.");
    }
    if (op.group != ops.front().group) wrong_argument("All ops need to use the same group.");
  }
  std::vector<MessageCall> calls;
  for (const P2POp& op : ops) {
    const bool is_send = op.op == PointToPoint::isend;
    calls.push_back({.function = is_send ? "isend" : "irecv",
                     .is_send = is_send,
                     .is_blocking = false,
                     .peer = op.peer,
                     .group = op.group,
                     .tag = op.tag,
                     .location = location});
  }
  state_->prepare(calls, ops);
  std::vector<Work> works;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Work work = state_->post(calls[i], ops[i].tensor);
    if (work) works.push_back(work);
  }
  return works;
}

// Checks a batch as one call: nothing of it happens if a part is refused, and its sends carry the
// values that their tensors hold now, even if an earlier receive in the list will overwrite them.
void DistributedContext::State::prepare(std::vector<MessageCall>& calls,
                                        const std::vector<P2POp>& ops) const {
  Group* const group = find(ops.front().group);
  if (group == nullptr) return;
  std::vector<Block> outputs;  // those of sends are empty
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Tensor& tensor = ops[i].tensor;
    check_tensor(calls[i].function, tensor);
    runtime::synchronize_current_stream(*simulation, tensor.device());
    outputs.push_back({.tensor = tensor, .count = calls[i].is_send ? 0 : tensor.numel()});
  }
  check_are_apart("batch_isend_irecv", "p2p_op_list", outputs);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Tensor version = prepare_tensor(make_message(*group, calls[i]), ops[i].tensor);
    if (calls[i].is_send) calls[i].version = version;
  }
}

}  // namespace kernbench::distributed
