#include "sim_engine/components/ipcq.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::sim {

namespace {

constexpr Bytes kCreditBytes = 16;

Endpoint buffer_of(const IpcqChannel::Ends& ends, BufferKind kind) {
  switch (kind) {
    case BufferKind::tcm:
      return {Endpoint::Kind::tcm, ends.to};
    case BufferKind::sram:
      return {Endpoint::Kind::sram, {ends.to.sip, ends.to.cube, 0}};
    case BufferKind::hbm:
      break;
  }
  return {Endpoint::Kind::hbm, ends.to};
}

// Tells whoever waits, once.
void notify(Event& waiter) {
  const Event event = std::exchange(waiter, {});
  if (event.function != nullptr) event.function(event.object, event.argument);
}

}  // namespace

std::string_view name_of(BufferKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"tcm", "sram", "hbm"};
  return kNames.at(static_cast<std::size_t>(kind));
}

IpcqChannel::IpcqChannel(Engine& engine, Fabric& fabric, const Ends& ends, const IpcqParams& params)
    : engine_(engine),
      ends_(ends),
      params_(params),
      data_path_(
          &fabric.path({Endpoint::Kind::tcm, ends.from}, buffer_of(ends, params.buffer_kind))),
      pop_path_(&fabric.path(buffer_of(ends, params.buffer_kind), {Endpoint::Kind::tcm, ends.to})),
      credit_time_(
          fabric.path({Endpoint::Kind::pe_cpu, ends.to}, {Endpoint::Kind::pe_cpu, ends.from})
              .time_of(kCreditBytes)),
      credits_(params.depth),
      returns_(static_cast<std::size_t>(params.depth)),
      slots_(static_cast<std::size_t>(params.depth)) {
  KB_CHECK(params.depth > 0, "a queue of {} slots", params.depth);
}

std::string IpcqChannel::name() const {
  return fmt::format("ipcq {} {} -> {} {}", to_string(ends_.from), to_string(ends_.out),
                     to_string(ends_.to), to_string(ends_.in));
}

void IpcqChannel::take_credit() {
  if (!has_credit()) {
    throw DeviceError("KB-Q001",
                      fmt::format("{}: push with 0 credits (depth {})", name(), params_.depth));
  }
  --credits_;
  ++on_the_way_;
  check_invariant();
}

void IpcqChannel::deliver(IpcqMessage message) {
  KB_CHECK(message.bytes <= params_.slot_bytes, "{} B in a slot of {} B", message.bytes,
           params_.slot_bytes);
  --on_the_way_;
  const std::size_t tail = (head_ + static_cast<std::size_t>(message_count_)) % slots_.size();
  slots_[tail] = std::move(message);
  ++message_count_;
  check_invariant();
  notify(on_message_);
}

IpcqMessage IpcqChannel::pop() {
  if (!has_message()) {
    throw DeviceError("KB-Q002", fmt::format("{}: pop from an empty queue", name()));
  }
  IpcqMessage message = std::exchange(slots_[head_], {});
  head_ = (head_ + 1) % slots_.size();
  --message_count_;
  ++being_emptied_;
  check_invariant();
  return message;
}

void IpcqChannel::release_slot() {
  --being_emptied_;
  const std::size_t last = first_return_ + static_cast<std::size_t>(credits_in_flight_++);
  returns_[last % returns_.size()] = engine_.now() + credit_time_;
  check_invariant();
  if (on_credit_.function != nullptr && credits_in_flight_ == 1) schedule_credit_event();
}

// Of the credits in flight, those that have arrived.
int IpcqChannel::returned_count() const {
  int count = 0;
  while (count < credits_in_flight_ &&
         returns_[(first_return_ + static_cast<std::size_t>(count)) % returns_.size()] <=
             engine_.now()) {
    ++count;
  }
  return count;
}

void IpcqChannel::collect_credits() {
  const int count = returned_count();
  first_return_ = (first_return_ + static_cast<std::size_t>(count)) % returns_.size();
  credits_in_flight_ -= count;
  credits_ += count;
}

bool IpcqChannel::has_credit() {
  collect_credits();
  return credits_ > 0;
}

void IpcqChannel::wake_on_credit(const Event& event) {
  on_credit_ = event;
  if (credits_in_flight_ > 0) schedule_credit_event();
}

void IpcqChannel::schedule_credit_event() {
  engine_.schedule<&IpcqChannel::credit_event>(returns_[first_return_] - engine_.now(), this);
}

void IpcqChannel::credit_event() {
  notify(on_credit_);
}

// Every slot is in exactly one place.
void IpcqChannel::check_invariant() const {
  KB_CHECK(credits_ >= 0 && on_the_way_ >= 0 && being_emptied_ >= 0 && credits_in_flight_ >= 0 &&
               credits_ + on_the_way_ + message_count() + being_emptied_ + credits_in_flight_ ==
                   params_.depth,
           "{}: {} credits, {} on the way, {} arrived, {} being emptied, {} credits in flight, "
           "depth {}",
           name(), credits_, on_the_way_, message_count(), being_emptied_, credits_in_flight_,
           params_.depth);
}

void IpcqChannel::reset() {
  credits_ = params_.depth;
  on_the_way_ = being_emptied_ = credits_in_flight_ = message_count_ = 0;
  std::ranges::fill(slots_, IpcqMessage{});
  head_ = first_return_ = 0;
  on_credit_ = on_message_ = {};
  last_departure_ = {};
}

void PeIpcq::enter(Table& table, Port port, IpcqChannel* channel) {
  auto& channels = table[static_cast<std::size_t>(port.direction)];
  const auto index = static_cast<std::size_t>(port.index);
  if (index >= channels.size()) channels.resize(index + 1);
  channels[index] = channel;
}

std::vector<IpcqChannel*> PeIpcq::all_of(const Table& table) {
  std::vector<IpcqChannel*> all;
  for (const auto& channels : table) {
    std::ranges::copy_if(channels, std::back_inserter(all),
                         [](const IpcqChannel* channel) { return channel != nullptr; });
  }
  return all;
}

}  // namespace kernbench::sim
