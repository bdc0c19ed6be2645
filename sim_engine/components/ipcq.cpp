#include "sim_engine/components/ipcq.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::sim {

namespace {

constexpr Bytes kCreditBytes = 16;

// A PE's memory or port, or the switch.
Endpoint end_at(Endpoint::Kind kind, const PeLocation& at) {
  if (at == kSwitchLocation) return {Endpoint::Kind::network, {}};
  return {kind, at};
}

Endpoint make_buffer_endpoint(const IpcqChannel::Ends& ends, BufferKind kind) {
  if (ends.to == kSwitchLocation) return {Endpoint::Kind::network, {}};
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

// Calls the waiter's event, if there is one, and forgets it.
void notify(Event& waiter) {
  const Event event = std::exchange(waiter, {});
  if (event.function != nullptr) event.function(event.object, event.argument);
}

}  // namespace

IpcqChannel::IpcqChannel(Engine& engine, Fabric& fabric, const Ends& ends, const IpcqParams& params)
    : engine_(engine),
      ends_(ends),
      params_(params),
      fabric_(fabric),
      tail_(params.first_number),
      credits_(params.depth),
      returns_(std::bit_ceil(static_cast<std::uint32_t>(params.depth))),
      slot_mask_(std::bit_ceil(static_cast<std::uint32_t>(params.depth)) - 1),
      next_to_show_(params.first_number),
      posts_(params.first_number) {
  KB_CHECK(params.depth > 0, "a queue of {} slots", params.depth);
  KB_CHECK(params.poll_interval > Time{0}, "a look every {} ps", params.poll_interval.count());
}

const Path& IpcqChannel::data_path() const {
  if (data_path_ == nullptr)
    data_path_ = &fabric_.path(end_at(Endpoint::Kind::tcm, ends_.from),
                               make_buffer_endpoint(ends_, params_.buffer_kind));
  return *data_path_;
}

const Path& IpcqChannel::pop_path() const {
  if (pop_path_ == nullptr)
    pop_path_ = &fabric_.path(make_buffer_endpoint(ends_, params_.buffer_kind),
                              end_at(Endpoint::Kind::tcm, ends_.to));
  return *pop_path_;
}

const Path& IpcqChannel::copy_path() const {
  if (copy_path_ == nullptr)
    copy_path_ = &fabric_.path(end_at(Endpoint::Kind::tcm, ends_.from),
                               end_at(Endpoint::Kind::tcm, ends_.to));
  return *copy_path_;
}

Time IpcqChannel::credit_time() const {
  if (!credit_time_)
    credit_time_ = fabric_
                       .path(end_at(Endpoint::Kind::pe_cpu, ends_.to),
                             end_at(Endpoint::Kind::pe_cpu, ends_.from))
                       .time_of(kCreditBytes);
  return *credit_time_;
}

std::string IpcqChannel::name() const {
  return fmt::format("ipcq {} {} -> {} {}", to_string(ends_.from), to_string(ends_.out),
                     to_string(ends_.to), to_string(ends_.in));
}

// The sender's side

std::optional<Time> IpcqChannel::next_credit() const {
  if (credits_ > 0) return Time{0};
  if (credits_in_flight_ > 0) return returns_[first_return_];
  return std::nullopt;
}

CauseLog::Id IpcqChannel::cause_of_credit(Time noticed) const {
  CauseLog* const causes = engine_.causes();
  const bool is_known = causes != nullptr && credits_ == 0 && credits_in_flight_ > 0 &&
                        first_return_ < release_causes_.size();
  if (!is_known) return causes == nullptr ? CauseLog::Id{} : causes->current();
  return cause_of_return(release_causes_[first_return_], returns_[first_return_], noticed);
}

CauseLog::Id IpcqChannel::cause_of_post(Time noticed) const {
  const IpcqPost* const post = posts_.find(tail_);
  if (engine_.causes() == nullptr || post == nullptr) return {};
  return cause_of_return(post->cause, post->issued + credit_time(), noticed);
}

// A credit, or the news of a post, leaves the receiver after `cause` and reaches the sender at
// `there`.  The sender notices it later if it polls.
CauseLog::Id IpcqChannel::cause_of_return(CauseLog::Id cause, Time there, Time noticed) const {
  CauseLog& causes = *engine_.causes();
  return causes.add(causes.add(cause, there, Cause::credit), noticed, Cause::poll);
}

std::uint32_t IpcqChannel::take_credit(Time clock) {
  collect_credits(clock);
  if (credits_ == 0) {
    throw DeviceError("KB-Q001", "{}: push with 0 credits (depth {})", name(), params_.depth);
  }
  --credits_;
  ++on_the_way_;
  check_invariant();
  return tail_++;
}

std::optional<Time> IpcqChannel::next_post() const {
  const IpcqPost* post = posts_.find(tail_);
  if (post == nullptr) return std::nullopt;
  return post->issued + credit_time();
}

std::uint32_t IpcqChannel::take_post() {
  KB_CHECK(posts_.find(tail_) != nullptr, "no receive is posted for message {}", tail_);
  return tail_++;
}

void IpcqChannel::deliver(std::uint32_t number, IpcqMessage message) {
  KB_CHECK(message.bytes <= params_.slot_bytes, "{} B in a slot of {} B", message.bytes,
           params_.slot_bytes);
  if (number != next_to_show_) {
    // A message that goes through a slot and one that is copied take different ways, so a later one
    // may come first.  It stays hidden until its turn.
    early_.emplace(number, Early{std::move(message), false});
    return;
  }
  show(number, std::move(message));
  show_early();
}

void IpcqChannel::deliver_in_place(std::uint32_t number, IpcqMessage message) {
  if (number != next_to_show_) {
    early_.emplace(number, Early{std::move(message), true});
    return;
  }
  show_in_place(number, std::move(message));
  show_early();
}

void IpcqChannel::show_early() {
  while (!early_.empty()) {
    const auto next = early_.find(next_to_show_);
    if (next == early_.end()) return;
    Early early = std::move(next->second);
    early_.erase(next);
    early.in_place ? show_in_place(next_to_show_, std::move(early.message))
                   : show(next_to_show_, std::move(early.message));
  }
}

void IpcqChannel::show(std::uint32_t number, IpcqMessage message) {
  ++next_to_show_;
  --on_the_way_;
  if (IpcqPost* post = posts_.find(number)) return hand_over(number, *post, std::move(message));
  KB_CHECK(number == posts_.next() + static_cast<std::uint32_t>(message_count_),
           "message {} arrived after {} of {}", number, message_count_, posts_.next());
  // Most queues of large machines never hold a message in a slot, and then they need no memory for
  // slots.
  if (slots_.empty()) slots_.resize(slot_mask_ + 1);
  slot(number) = std::move(message);
  ++message_count_;
  check_invariant();
}

void IpcqChannel::show_in_place(std::uint32_t number, IpcqMessage message) {
  ++next_to_show_;
  IpcqPost& post = *posts_.find(number);
  // The kernel that posted the receive has failed, so its message is dropped when it comes.
  if (post.state == IpcqPost::State::discarded) return posts_.close(number);
  receiver_->receive_in_place(*this, post, std::move(message));
}

// The receiver's side

std::uint32_t IpcqChannel::post(ReceiveIssuer& issuer, const Tile& tile, Time issued,
                                CauseLog::Id cause) {
  const std::uint32_t number = posts_.next();
  IpcqPost& post = posts_.add();
  post.issuer = &issuer;
  post.tile = tile;
  post.issued = issued;
  post.cause = cause;
  if (message_count_ > 0) {
    --message_count_;
    hand_over(number, post, std::exchange(slot(number), {}));
  } else {
    notify(on_post_);
  }
  return number;
}

// Gives a message that lies in its slot to the post that takes it.
void IpcqChannel::hand_over(std::uint32_t number, IpcqPost& post, IpcqMessage message) {
  ++being_emptied_;
  check_invariant();
  if (post.state == IpcqPost::State::discarded) {
    posts_.close(number);
    release_slot();
  } else {
    receiver_->receive(*this, post, std::move(message));
  }
}

IpcqMessage IpcqChannel::pop() {
  if (message_count_ == 0) {
    throw DeviceError("KB-Q002", "{}: pop from an empty queue", name());
  }
  const std::uint32_t number = posts_.next();
  posts_.add();
  posts_.close(number);
  --message_count_;
  ++being_emptied_;
  check_invariant();
  return std::exchange(slot(number), {});
}

void IpcqChannel::release_slot() {
  --being_emptied_;
  const std::size_t last = first_return_ + static_cast<std::size_t>(credits_in_flight_++);
  returns_[last & slot_mask_] = engine_.now() + credit_time();
  if (const CauseLog* const causes = engine_.causes()) {
    release_causes_.resize(returns_.size());
    release_causes_[last & slot_mask_] = causes->current();
  }
  check_invariant();
  notify(on_credit_);
}

// The number of credits in flight that have arrived by `clock`.
int IpcqChannel::returned_count(Time clock) const {
  int count = 0;
  while (count < credits_in_flight_ &&
         returns_[(first_return_ + static_cast<std::size_t>(count)) & slot_mask_] <= clock) {
    ++count;
  }
  return count;
}

void IpcqChannel::collect_credits(Time clock) {
  const int count = returned_count(clock);
  first_return_ = (first_return_ + static_cast<std::size_t>(count)) & slot_mask_;
  credits_in_flight_ -= count;
  credits_ += count;
}

// Every slot is in exactly one state.
void IpcqChannel::check_invariant() const {
  KB_CHECK(credits_ >= 0 && on_the_way_ >= 0 && being_emptied_ >= 0 && credits_in_flight_ >= 0 &&
               credits_ + on_the_way_ + message_count_ + being_emptied_ + credits_in_flight_ ==
                   params_.depth,
           "{}: {} credits, {} on the way, {} arrived, {} being emptied, {} credits in flight, "
           "depth {}",
           name(), credits_, on_the_way_, message_count_, being_emptied_, credits_in_flight_,
           params_.depth);
}

void IpcqChannel::reset() {
  credits_ = params_.depth;
  on_the_way_ = being_emptied_ = credits_in_flight_ = message_count_ = 0;
  std::ranges::fill(slots_, IpcqMessage{});
  first_return_ = 0;
  tail_ = next_to_show_ = params_.first_number;
  early_.clear();
  posts_.reset(params_.first_number);
  on_credit_ = on_post_ = {};
  last_send_ = nullptr;
}

}  // namespace kernbench::sim
