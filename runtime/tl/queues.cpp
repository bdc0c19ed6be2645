// Implements tl.send, tl.recv, tl.recv_async and tl.wait on the queues of a PE.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/tl/port_names.h"
#include "runtime/tl/tiles.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

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
    return *channel;
  }
  std::vector<Port> ports;
  for (const sim::IpcqChannel* other : ipcq.outs()) ports.push_back(other->ends().out);
  throw no_neighbour(where("tl.send"), port, known(ports));
}

sim::IpcqChannel& Context::in(Port port) const {
  const sim::PeIpcq& ipcq = run_.pe().ipcq();
  if (sim::IpcqChannel* channel = ipcq.in(port_of_pe(port))) {
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
  Tiles(*this).send(channel, value.tile_);
}

void Context::send(Port port, const Tensor& value, CopyTo) {
  sim::IpcqChannel& channel = out(port);
  check_own("tl.send", value);
  Tiles(*this).copy_to(channel, value.tile_);
}

// Receiving

RecvFuture Context::recv_async(Port port, const Shape& shape, DType dtype) {
  check_dtype("tl.recv", dtype);
  sim::IpcqChannel& channel = in(port);
  return {run_.id(), shape, Tiles(*this).post(channel, dtype, shape.numel())};
}

Tensor Context::wait(RecvFuture& future) {
  if (future.kernel_ != run_.id()) {
    throw DeviceError("KB-Q008", "{}: {}", where("tl.wait"),
                      future.kernel_ == 0
                          ? "the future is used up: its message was waited for already"
                          : "the future is of another kernel or PE");
  }
  const Time began = Tiles(*this).wait(future.receive_);
  future.kernel_ = 0;
  return {*this, future.shape_, Tiles(*this).take(future.receive_, began), "tl.recv"};
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
