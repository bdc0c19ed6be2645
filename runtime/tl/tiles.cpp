// Implements what kernels do with tiles: the waits for queues, above all.

#include "runtime/tl/tiles.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "sim_engine/base/error.h"
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

}  // namespace

void Tiles::set_holder(const ScratchHolder* holder) {
  tl_.holder_ = holder;
}

void Tiles::replace(sim::Tile& tile, sim::Tile by) {
  tile = std::move(by);
  tl_.run_.pe().scratch_may_be_free();
}

sim::IpcqChannel& Tiles::out(Port port) const {
  return tl_.out(port);
}

sim::IpcqChannel& Tiles::in(Port port) const {
  return tl_.in(port);
}

// HBM

sim::Tile Tiles::load(const Pointer& source, const Rows& rows, DType dtype) {
  const std::int64_t count = rows.count * rows.columns;
  sim::ElementRange elements{0, count};
  if (rows.count == 1) {
    tl_.check_access("tl.load", source, count, dtype);
    elements.begin = source.offset();
  } else {
    elements = tl_.rows_at("tl.load", source, {rows.count, rows.columns}, dtype, rows.pitch);
  }
  tl_.show("tl.load", source, elements, false);
  tl_.make_room("tl.load", count * size_of(dtype));
  return tl_.run_.load(source.buffer_, elements);
}

void Tiles::store(const Pointer& target, const Rows& rows, const sim::Tile& value) {
  sim::ElementRange elements{0, value->element_count};
  if (rows.count == 1) {
    tl_.check_access("tl.store", target, value->element_count, value->dtype);
    elements.begin = target.offset();
  } else {
    elements =
        tl_.rows_at("tl.store", target, {rows.count, rows.columns}, value->dtype, rows.pitch);
  }
  tl_.check_store("tl.store", target, elements);
  tl_.make_room("tl.store", 0);
  tl_.run_.store(target.buffer_, elements, value);
}

// PE_MATH

sim::Tile Tiles::math(sim::MathOp op, std::string_view name, const sim::Tile& a,
                      const sim::Tile& b) {
  tl_.make_room(name, a->bytes);
  return tl_.run_.math(op, a, b);
}

sim::Tile Tiles::math(sim::MathOp op, std::string_view name, DType dtype, const sim::Tile& a,
                      std::optional<Scalar> number) {
  tl_.make_room(name, a->element_count * size_of(dtype));
  std::array<sim::MathOperand, 2> operands;
  operands[0].tile = a;
  if (number) operands[1].number = *number;
  return tl_.run_.math(op, dtype, a->element_count, std::span(operands).first(number ? 2 : 1));
}

sim::Tile Tiles::narrow(const sim::Tile& value, std::int64_t begin, std::int64_t count) {
  return tl_.run_.slice(value, begin, count);
}

sim::Tile Tiles::cat(std::span<const sim::Tile> values) {
  return tl_.run_.concat(values);
}

// Sending

bool Tiles::has_slot(const sim::IpcqChannel& channel, Bytes bytes) const {
  const std::optional<Time> credit = channel.next_credit();
  return bytes <= channel.params().slot_bytes && credit && *credit <= tl_.run_.clock();
}

void Tiles::send(sim::IpcqChannel& channel, const sim::Tile& value) {
  const sim::IpcqParams& params = channel.params();
  if (value->bytes > params.slot_bytes) {
    throw DeviceError(
        "KB-Q004",
        fmt::format("{}: send {} B into {} B slot of {}; send it in parts, or set a "
                    "larger 'slot' in ccl.yaml",
                    tl_.where("tl.send"), value->bytes, params.slot_bytes, channel.name()));
  }
  tl_.make_room("tl.send", 0);
  sim::KernelRun& run = tl_.run_;
  const Time began = run.clock();
  while (!channel.next_credit()) {
    SenderWait wait(tl_.local_, channel, began);
    wait.waits_for_credit();
    channel.wake_on_credit(run.wake());
    tl_.fibers_.park([&] {
      return fmt::format("a credit of {} (depth {}, used {})", channel.name(), params.depth,
                         params.depth);
    });
  }
  const Time noticed = params.noticed(began, *channel.next_credit());
  run.wait_until(noticed, channel.cause_of_credit(noticed));
  run.waits()[sim::WaitCause::credit] += run.clock() - began;
  run.send(channel, value);
}

void Tiles::copy_to(sim::IpcqChannel& channel, const sim::Tile& value) {
  tl_.make_room("tl.send", 0);
  sim::KernelRun& run = tl_.run_;
  const Time began = run.clock();
  while (!channel.next_post()) {
    const SenderWait wait(tl_.local_, channel, began);
    channel.wake_on_post(run.wake());
    tl_.fibers_.park([&] { return fmt::format("a posted receive of {}", channel.name()); });
  }
  const Time noticed = channel.params().noticed(began, *channel.next_post());
  run.wait_until(noticed, channel.cause_of_post(noticed));
  run.waits()[sim::WaitCause::receive] += run.clock() - began;
  run.copy_to(channel, value);
}

// Receiving

sim::PostedReceive Tiles::post(sim::IpcqChannel& channel, DType dtype, std::int64_t count) {
  tl_.make_room("tl.recv", count * size_of(dtype));
  return tl_.run_.post_receive(channel, dtype, count);
}

Time Tiles::wait(const sim::PostedReceive& receive) {
  const sim::IpcqChannel& channel = *receive.channel;
  const Time began = tl_.run_.clock();
  while (sim::KernelRun::find_post(receive).state == sim::IpcqPost::State::open) {
    const QueueWait wait(tl_.local_, channel.ends().from, began);
    sim::KernelRun::find_post(receive).wakes = true;
    tl_.fibers_.park([&] {
      return fmt::format("a message of {} ({} B; empty)", channel.name(), receive.tile->bytes);
    });
  }
  return began;
}

sim::Tile Tiles::take(sim::PostedReceive& receive, Time began) {
  const auto refused = tl_.run_.close_receive(receive);
  tl_.run_.waits()[sim::WaitCause::message] += tl_.run_.clock() - began;
  if (refused) tl_.refuse(*receive.channel, *refused, receive.tile);
  return std::move(receive.tile);
}

}  // namespace kernbench::tl
