// Implements tl.send, tl.recv, tl.recv_async and tl.wait on the queues of a PE.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/tl/port_names.h"
#include "runtime/tl/tl.h"
#include "runtime/tl/touched.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/prefetch.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

// Lets reports show, while a kernel waits for a queue, which PE it waits for, and since when on
// its own clock.
class QueueWait {
 public:
  QueueWait(runtime::FiberLocal& local, const sim::PeLocation& other_end, Time since)
      : local_(local) {
    local_.waits_for = other_end;
    local_.waits_since = since;
  }
  ~QueueWait() {
    local_.waits_for.reset();
    local_.waits_since.reset();
  }
  QueueWait(const QueueWait&) = delete;
  QueueWait& operator=(const QueueWait&) = delete;

 private:
  runtime::FiberLocal& local_;
};

// Marks a sender as waiting; if it is unwound, its queue forgets it.
class SenderWait {
 public:
  SenderWait(runtime::FiberLocal& local, sim::IpcqChannel& channel, Time since)
      : wait_(local, channel.ends().to, since), local_(local), channel_(channel) {}
  ~SenderWait() {
    channel_.forget_sender();
    local_.full_depth = 0;
  }
  void waits_for_credit() { local_.full_depth = channel_.params().depth; }
  SenderWait(const SenderWait&) = delete;
  SenderWait& operator=(const SenderWait&) = delete;

 private:
  const QueueWait wait_;
  runtime::FiberLocal& local_;
  sim::IpcqChannel& channel_;
};

// `known` lists the ports that have a neighbour.
DeviceError no_neighbour(const std::string& where, Port port, const std::vector<Port>& known) {
  std::vector<std::string> names;
  for (const Port other : known) names.push_back(to_string(other));
  return {"KB-Q006",
          fmt::format(
              "{}: there is no neighbour at {}; there {}", where, to_string(port),
              names.empty() ? "is none at all" : fmt::format("are: {}", fmt::join(names, ", ")))};
}

}  // namespace

Port Context::port_of_pe(Port port) const {
  const Port* other = port_names_ == nullptr ? nullptr : port_names_->find(port);
  return other == nullptr ? port : *other;
}

std::vector<Port> Context::known(const std::vector<Port>& of_pe) const {
  if (port_names_ == nullptr) return of_pe;
  std::vector<Port> names;
  for (const Port port : of_pe) {
    if (const Port* name = port_names_->find_name(port)) names.push_back(*name);
  }
  return names;
}

sim::IpcqChannel& Context::out(Port port) const {
  const sim::PeIpcq& ipcq = run_.pe().ipcq();
  if (sim::IpcqChannel* channel = ipcq.out(port_of_pe(port))) {
    touched_->add(*channel, false);
    return *channel;
  }
  std::vector<Port> ports;
  for (const sim::IpcqChannel* other : ipcq.outs()) ports.push_back(other->ends().out);
  throw no_neighbour(where("tl.send"), port, known(ports));
}

sim::IpcqChannel& Context::in(Port port) const {
  const sim::PeIpcq& ipcq = run_.pe().ipcq();
  if (sim::IpcqChannel* channel = ipcq.in(port_of_pe(port))) {
    touched_->add(*channel, true);
    return *channel;
  }
  std::vector<Port> ports;
  for (const sim::IpcqChannel* other : ipcq.ins()) ports.push_back(other->ends().in);
  throw no_neighbour(where("tl.recv"), port, known(ports));
}

// Sending

void Context::send(Port port, const Tensor& value) {
  sim::IpcqChannel& channel = out(port);
  check_own("tl.send", value);
  if (value.tile_->bytes > channel.params().slot_bytes) {
    throw DeviceError(
        "KB-Q004",
        "{}: send {} B into {} B slot of {}; send it in parts, or set a larger 'slot' in ccl.yaml",
        where("tl.send"), value.tile_->bytes, channel.params().slot_bytes, channel.name());
  }
  make_room("tl.send", 0);
  const Time began = run_.clock();
  while (!channel.next_credit()) {
    SenderWait wait(local_, channel, began);
    wait.waits_for_credit();
    channel.wake_on_credit(run_.wake());
    fibers_.park([&] {
      return fmt::format("a credit of {} (depth {}, used {})", channel.name(),
                         channel.params().depth, channel.params().depth);
    });
  }
  const Time noticed = channel.params().noticed(began, *channel.next_credit());
  run_.wait_until(noticed, channel.cause_of_credit(noticed));
  run_.waits()[sim::WaitCause::credit] += run_.clock() - began;
  run_.send(channel, value.tile_);
}

void Context::send(Port port, const Tensor& value, CopyTo) {
  sim::IpcqChannel& channel = out(port);
  check_own("tl.send", value);
  make_room("tl.send", 0);
  const Time began = run_.clock();
  while (!channel.next_post()) {
    const SenderWait wait(local_, channel, began);
    channel.wake_on_post(run_.wake());
    fibers_.park([&] { return fmt::format("a posted receive of {}", channel.name()); });
  }
  const Time noticed = channel.params().noticed(began, *channel.next_post());
  run_.wait_until(noticed, channel.cause_of_post(noticed));
  run_.waits()[sim::WaitCause::receive] += run_.clock() - began;
  run_.copy_to(channel, value.tile_);
}

// Receiving

RecvFuture Context::recv_async(Port port, const Shape& shape, DType dtype) {
  check_dtype("tl.recv", dtype);
  sim::IpcqChannel& channel = in(port);
  make_room("tl.recv", shape.numel() * size_of(dtype));
  return {run_.id(), shape, run_.post_receive(channel, dtype, shape.numel())};
}

Tensor Context::wait(RecvFuture& future) {
  if (future.kernel_ != run_.id()) {
    throw DeviceError("KB-Q008", "{}: {}", where("tl.wait"),
                      future.kernel_ == 0
                          ? "the future is used up: its message was waited for already"
                          : "the future is of another kernel or PE");
  }
  const sim::IpcqChannel& channel = *future.receive_.channel;
  const Time began = run_.clock();
  while (sim::KernelRun::find_post(future.receive_).state == sim::IpcqPost::State::open) {
    const QueueWait wait(local_, channel.ends().from, began);
    sim::KernelRun::find_post(future.receive_).wakes = true;
    fibers_.park([&] {
      return fmt::format("a message of {} ({} B; empty)", channel.name(),
                         future.receive_.tile->bytes);
    });
  }
  future.kernel_ = 0;
  const auto refused = run_.close_receive(future.receive_);
  run_.waits()[sim::WaitCause::message] += run_.clock() - began;
  if (refused) refuse(channel, *refused, future.receive_.tile);
  return {*this, future.shape_, std::move(future.receive_.tile), "tl.recv"};
}

void Context::prefetch(const RecvFuture& future, int stage) {
  const sim::TileNode* const tile = future.receive_.tile.operator->();
  if (stage == 0) ask_for(tile, sizeof *tile);
  if (stage == 1 && tile != nullptr) ask_for(tile->value.node(), sizeof(sim::ValueNode));
}

Tensor Context::recv(Port port, const Shape& shape, DType dtype) {
  return wait(recv_async(port, shape, dtype));
}

void Context::refuse(const sim::IpcqChannel& channel, const sim::IpcqMessage& message,
                     const sim::Tile& expected) const {
  if (!share_messages(message.operation, run_.operation())) {
    throw DeviceError(
        "KB-Q003",

        "{}: the oldest message of {} ({} B, sent at {}) was left there by {}; every tl.send needs "
        "its tl.recv before the queue is used for something else",
        where("tl.recv"), channel.name(), message.bytes, to_string(message.sent),
        message.operation.is_collective ? "another collective" : "a kernel of the user's");
  }
  throw DeviceError("KB-Q005", "{} expects {} B of {}, got {} B of {} (sent at {}) by {}",
                    where("tl.recv"), expected->bytes, name_of(expected->dtype), message.bytes,
                    name_of(message.dtype), to_string(message.sent), channel.name());
}

void Context::check_receives_are_closed() const {
  if (run_.open_receives() == 0) return;
  std::vector<std::string> ports;
  for (const sim::IpcqChannel* channel : run_.pe().ipcq().ins()) {
    const int count = channel->open_post_count(run_);
    if (count > 0) ports.push_back(fmt::format("{} at {}", count, to_string(channel->ends().in)));
  }
  throw DeviceError("KB-Q007",
                    "kernel '{}' on {} ends with receives that were posted and not waited for: {}; "
                    "every tl.recv_async needs its tl.wait",
                    kernel_name_, to_string(location()), fmt::join(ports, ", "));
}

}  // namespace kernbench::tl
