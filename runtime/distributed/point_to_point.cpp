// torch.distributed's point-to-point messages.

#include <fmt/format.h>

#include <any>
#include <utility>

#include "runtime/distributed/aliasing.h"
#include "runtime/distributed/group.h"
#include "runtime/distributed/misuse.h"
#include "runtime/distributed/work_state.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed {

namespace {

[[noreturn]] void refuse_self(bool is_send) {
  wrong_argument(is_send ? "Invalid destination rank: destination rank should not be the same as "
                           "the rank of the current process."
                         : "Invalid source rank: source rank should not be the same as the rank of "
                           "the current process.");
}

}  // namespace

runtime::FlightRecorder::Id DistributedContext::record(const MessageCall& wanted,
                                                       const Message& message, int group) {
  runtime::Simulation& simulation = torch_.simulation();
  simulation.log(runtime::LogTopic::distributed, [&] { return describe(message) + " issued"; });
  simulation.local().last_call.set(wanted.function.data(), wanted.location.file_name(),
                                   wanted.location.line());
  const bool has_tensor = message.objects == nullptr;
  return simulation.flight_recorder().issue(
      message.own, {.function = wanted.function,
                    .location = wanted.location,
                    .group = group,
                    .peer = message.other.value_or(-1),
                    .tag = message.tag,
                    .has_tensor = has_tensor,
                    .is_async = !wanted.is_blocking,
                    .dtype = has_tensor ? message.block.tensor.dtype() : DType::f32,
                    .shape = has_tensor ? message.block.tensor.shape() : Shape(),
                    .issued = simulation.now()});
}

// Outside of spawn() no other rank exists, unless a single driver acts for all of them.
void DistributedContext::check_peer_can_call(const Message& message) const {
  const bool is_alone =
      local().kind == runtime::FiberLocal::Kind::unbound && !backend().has_single_driver();
  if (!is_alone || message.other == message.own) return;
  throw DeadlockError(
      "KB-C002",
      fmt::format("{}: no other rank was started, so none can {} it; spawn() the ranks",
                  describe(message), message.is_send ? "receive" : "send"),
      ExitCode::collective_misuse);
}

// Makes the message without the tensor or objects that it moves.
Message DistributedContext::message_of(const Call& call, const MessageCall& wanted) const {
  Message message{.is_send = wanted.is_send, .own = local().rank, .tag = wanted.tag};
  if (wanted.is_send || wanted.peer || wanted.group_peer) {
    const int peer = root_of(wanted.function, call, wanted.peer, wanted.group_peer);
    message.other = call.group->ranks[static_cast<std::size_t>(peer)];
    if (*message.other == message.own && wanted.is_blocking) refuse_self(wanted.is_send);
  }
  message.location = wanted.location;
  return message;
}

// Returns the tensor that a message reads or writes.  A rank that blocks in send() cannot write to
// the tensor meanwhile, so the tensor itself is used; an isend() uses a snapshot of its present
// values.
Tensor DistributedContext::tensor_of(const Message& message, const Tensor& x,
                                     bool is_blocking) const {
  runtime::check_may_touch(x, message.is_send ? runtime::Touch::reads : runtime::Touch::writes,
                           [&] { return describe(message); });
  return message.is_send && !is_blocking ? runtime::snapshot_of(x) : x;
}

// Sends and receives meet in the group's mailbox.  The second to come moves the elements, on a
// fiber of its own, since its rank need not wait.
Work DistributedContext::post(const MessageCall& wanted, const Tensor& x,
                              std::shared_ptr<std::any> objects) {
  const auto call = begin(wanted.function, wanted.group);
  if (!call) return {};
  if (objects == nullptr) check_tensor(wanted.function, x);
  Message message = message_of(*call, wanted);
  check_peer_can_call(message);
  if (objects == nullptr) {
    message.block = whole(wanted.version.defined() ? wanted.version
                                                   : tensor_of(message, x, wanted.is_blocking));
  }
  message.objects = std::move(objects);
  message.work = make_work(describe(message), std::make_shared<runtime::Timeline>());
  message.work->flight = record(wanted, message, call->group->number);
  message.work->is_message = true;
  message.work->peer = message.other;
  message.work->group = call->group->weak_from_this();
  // A send that carries a snapshot does not keep x in use: later writes to x cannot change it.
  const bool uses_tensor =
      message.objects == nullptr && message.block.tensor.storage() == x.storage();
  if (uses_tensor) message.work->keep(x, !wanted.is_send);
  const Work work(message.work, wanted.is_send ? std::vector<Tensor>() : std::vector{x});

  auto match = call->group->mailbox.take_match(message);
  if (!match) {
    call->group->mailbox.put(message);
    return work;
  }
  const Message& send = message.is_send ? message : *match;
  const Message& receive = message.is_send ? *match : message;
  for (const Message* side : {&send, &receive}) {
    torch_.simulation().flight_recorder().start(side->own, side->work->flight,
                                                torch_.simulation().now());
  }
  if (message.objects != nullptr) {
    *receive.objects = *send.objects;
    receive.work->source_rank = send.own;
    for (const Message* side : {&send, &receive}) side->work->finish(nullptr);
    return work;
  }
  start(message.work,
        [this, communicator = communicator_of(*call->group), send, receive, earlier = match->work] {
          std::exception_ptr failure;
          try {
            move(*communicator, send, receive);
          } catch (const Error&) {
            failure = std::current_exception();
          }
          receive.work->source_rank = send.own;
          earlier->finish(failure);
          if (failure != nullptr) std::rethrow_exception(failure);
        });
  return work;
}

void DistributedContext::move(Communicator& communicator, const Message& send,
                              const Message& receive) {
  const Tensor& from = send.block.tensor;
  const Tensor& to = receive.block.tensor;
  if (from.dtype() != to.dtype() || send.block.count > receive.block.count) {
    throw CollectiveMismatchError(
        "KB-C022", fmt::format("rank {} sends {} elements of {} to rank {}, which receives at most "
                               "{} of {}\n  rank {}: {}\n  rank {}: {}",
                               send.own, send.block.count, torch_name_of(from.dtype()), receive.own,
                               receive.block.count, torch_name_of(to.dtype()), send.own,
                               describe(send), receive.own, describe(receive)));
  }
  const Communicator::RunsBy by = communicator.runs_by({CollectiveKind::all_to_all, {}, {}});
  if (!by.algorithm.empty()) {
    torch_.simulation().note_algorithm({"send", by.algorithm, by.is_configured});
  }
  const std::uint64_t operation = torch_.simulation().next_operation();
  torch_.simulation().begin(operation);
  runtime::ActivityMeter& activity = torch_.simulation().activity();
  const runtime::CollectiveUnderWay at_sender(activity, from.device());
  const runtime::CollectiveUnderWay at_receiver(activity, to.device());
  communicator.transfer(operation, send.block, {to, receive.block.first, send.block.count});
}

Work DistributedContext::isend(const Tensor& x, int dst, const SendOptions& options,
                               Location location) {
  SendOptions all = options;
  all.dst = dst;
  return isend(x, all, location);
}

Work DistributedContext::isend(const Tensor& x, const SendOptions& options, Location location) {
  return post(
      {"isend", true, false, options.dst, options.group_dst, options.group, options.tag, location},
      x);
}

Work DistributedContext::irecv(const Tensor& x, std::optional<int> src, const RecvOptions& options,
                               Location location) {
  RecvOptions all = options;
  if (src) all.src = src;
  return irecv(x, all, location);
}

Work DistributedContext::irecv(const Tensor& x, const RecvOptions& options, Location location) {
  return post(
      {"irecv", false, false, options.src, options.group_src, options.group, options.tag, location},
      x);
}

void DistributedContext::send(const Tensor& x, int dst, const SendOptions& options,
                              Location location) {
  SendOptions all = options;
  all.dst = dst;
  send(x, all, location);
}

void DistributedContext::send(const Tensor& x, const SendOptions& options, Location location) {
  const Work work = post(
      {"send", true, true, options.dst, options.group_dst, options.group, options.tag, location},
      x);
  if (work) work.wait();
}

int DistributedContext::recv(const Tensor& x, std::optional<int> src, const RecvOptions& options,
                             Location location) {
  RecvOptions all = options;
  if (src) all.src = src;
  return recv(x, all, location);
}

int DistributedContext::recv(const Tensor& x, const RecvOptions& options, Location location) {
  const Work work = post(
      {"recv", false, true, options.src, options.group_src, options.group, options.tag, location},
      x);
  if (!work) return -1;
  work.wait();
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
    calls.push_back({is_send ? "isend" : "irecv", is_send, false, op.peer, std::nullopt, op.group,
                     op.tag, location});
  }
  prepare(calls, ops);
  std::vector<Work> works;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Work work = post(calls[i], ops[i].tensor);
    if (work) works.push_back(work);
  }
  return works;
}

// Checks a batch as one call: nothing of it happens if a part is refused, and its sends carry the
// values that their tensors hold now, even if an earlier receive in the list will overwrite them.
void DistributedContext::prepare(std::vector<MessageCall>& calls,
                                 const std::vector<P2POp>& ops) const {
  Group* const group = find(ops.front().group);
  if (group == nullptr) return;
  const Call call{group, *group->rank_of(local().rank)};
  std::vector<Block> outputs;  // those of sends are empty
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Tensor& tensor = ops[i].tensor;
    check_tensor(calls[i].function, tensor);
    outputs.push_back({tensor, 0, calls[i].is_send ? 0 : tensor.numel()});
  }
  check_are_apart("batch_isend_irecv", "p2p_op_list", outputs);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Tensor version = tensor_of(message_of(call, calls[i]), ops[i].tensor, false);
    if (calls[i].is_send) calls[i].version = version;
  }
}

}  // namespace kernbench::distributed
