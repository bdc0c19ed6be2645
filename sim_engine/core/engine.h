// The discrete-event engine: a clock and the future-event list.
//
// Order is total and reproducible: by time, then by the order of schedule() calls, or by a draw
// (shuffle_ties()).  It is the only scheduler of a simulation: hardware, kernels and rank fibers
// are all resumed from here.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/core/cause_log.h"
#include "sim_engine/core/event_queue.h"

namespace kernbench::sim {

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Time now() const { return queue_.now(); }

  // Runs `event` at now() + delay.  `why` says what passes until then, and where, for the log of
  // causes.
  // REQUIRES: delay >= 0
  EventHandle schedule(Time delay, const Event& event, Cause why = Cause::other,
                       std::uint32_t place = 0) {
    if (causes_ == nullptr) [[likely]]
      return queue_.push(now() + delay, event);
    return schedule_after(causes_->add(causes_->current(), now() + delay, why, place), delay,
                          event);
  }
  // Runs `event` at now(), after all others of this moment but those that it causes itself.
  EventHandle schedule_last(const Event& event) {
    return queue_.push_last(
        event, causes_ == nullptr ? 0 : static_cast<std::uint32_t>(causes_->current()));
  }
  // Runs `event` when no other is left, at any time: EventQueue::push_at_standstill().
  void schedule_at_standstill(const Event& event, std::uint64_t name) {
    queue_.push_at_standstill(event, name);
  }
  // True if only such events are left.
  bool is_at_standstill() const { return queue_.is_at_standstill(); }
  // As schedule(), where it is known what the event happens after.
  EventHandle schedule_after(CauseLog::Id cause, Time delay, const Event& event) {
    if (causes_ != nullptr) cause = causes_->add(cause, now() + delay, Cause::other);
    return queue_.push(now() + delay, event, static_cast<std::uint32_t>(cause));
  }

  // Records causes from now on.
  void record_causes() {
    if (causes_ == nullptr) causes_ = std::make_unique<CauseLog>(now());
  }
  // Null unless they are.
  CauseLog* causes() { return causes_.get(); }
  const CauseLog* causes() const { return causes_.get(); }

  // Runs events of equal time in any legal order from now on, drawn at random: see
  // EventQueue::shuffle_ties().  Whatever the model itself decides by order asks tie_seed().
  void shuffle_ties(std::uint64_t seed) {
    tie_seed_ = seed;
    queue_.shuffle_ties(seed);
  }
  // Lets `chooser` decide the order of events of equal time: see EventQueue::choose_ties().
  // `link_seed`: the value of tie_seed().
  void choose_ties(TieChooser& chooser, std::optional<std::uint64_t> link_seed) {
    tie_seed_ = link_seed;
    queue_.choose_ties(chooser);
  }
  // nullopt: what the model decides by order is not drawn.
  std::optional<std::uint64_t> tie_seed() const { return tie_seed_; }

  // Drops a pending event.  REQUIRES: it is pending
  void cancel(EventHandle handle) { queue_.cancel(handle); }
  void schedule(Time delay, EventFunction function, void* object, std::uint64_t argument = 0) {
    schedule(delay, Event{function, object, argument});
  }

  // An event that calls object->Method(argument), or object->Method() if it takes none.
  template <auto Method, class Object>
  static Event call(Object* object, std::uint64_t argument = 0) {
    return {[](void* target, std::uint64_t value) {
              if constexpr (requires { (static_cast<Object*>(target)->*Method)(value); }) {
                (static_cast<Object*>(target)->*Method)(value);
              } else {
                (static_cast<Object*>(target)->*Method)();
              }
            },
            object, argument};
  }

  // An event that calls object->Method(argument).  REQUIRES: the argument is there when it does
  template <auto Method, class Object, class Argument>
  requires std::is_class_v<Argument>
  static Event call(Object* object, Argument& argument) {
    return {[](void* target, std::uint64_t address) {
              (static_cast<Object*>(target)->*Method)(*reinterpret_cast<Argument*>(address));
            },
            object, reinterpret_cast<std::uintptr_t>(&argument)};
  }

  // Runs call<Method>(object, argument) at now() + delay.
  template <auto Method, class Object>
  void schedule(Time delay, Object* object, std::uint64_t argument = 0, Cause why = Cause::other) {
    schedule(delay, call<Method>(object, argument), why);
  }
  template <auto Method, class Object, class Argument>
  requires std::is_class_v<Argument>
  void schedule(Time delay, Object* object, Argument& argument, Cause why = Cause::other) {
    schedule(delay, call<Method>(object, argument), why);
  }

  // Runs the earliest event.  Returns false if there is none.
  bool step();

  // Runs events until `stop` is true (checked after each event) or none is left.  Another thread
  // may set it.  Returns `stop`.  Throws what an event throws.
  bool run(const std::atomic<bool>& stop) { return run(stop, ~std::uint64_t{0}); }
  // Runs at most so many of them.
  bool run(const std::atomic<bool>& stop, std::uint64_t at_most);
  bool run(bool) = delete;  // a plain bool would be read only once

  // Runs until no event is left.
  void run();

  // True if no event is left.
  bool is_idle() const { return queue_.empty(); }

  // When the next event is due.  REQUIRES: !is_idle()
  Time next_time() const { return queue_.next_time(); }

  // Drops all pending events; now() stays.  Used after a run that failed.
  void clear() { queue_.clear(); }

  std::uint64_t event_count() const { return event_count_; }

  // A hash of what fold() was given for each SIP, in any order.  Equal runs have equal
  // fingerprints, in every build, and so has a run in which SIPs stood for others.
  std::uint64_t fingerprint() const;

  // Adds a hash of something that happened on a SIP, and when (an op log record), to the
  // fingerprint.
  void fold(std::uint64_t hash, int sip = 0) {
    const auto number = static_cast<std::size_t>(sip);
    if (number >= sums_.size()) [[unlikely]]
      sums_.resize(number + 1);
    sums_[number] += hash;
  }
  // Lets SIPs stand for others in the fingerprint: by SIP, the one that does.
  void set_stand_ins(std::vector<int> sips) {
    stand_ins_ = std::move(sips);
    sums_.resize(stand_ins_.size());
  }

 private:
  EventQueue queue_;
  std::unique_ptr<CauseLog> causes_;
  std::optional<std::uint64_t> tie_seed_;
  std::uint64_t event_count_ = 0;
  std::vector<std::uint64_t> sums_;  // of hashes, by SIP
  std::vector<int> stand_ins_;       // by SIP; empty: none stands for another
};

inline std::uint64_t Engine::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t sum) { hash = (hash ^ sum) * 0x9e3779b97f4a7c15; };
  for (std::size_t sip = 0; sip < sums_.size(); ++sip) {
    add(sums_[stand_ins_.empty() ? sip : static_cast<std::size_t>(stand_ins_[sip])]);
  }
  return hash;
}

inline bool Engine::step() {
  if (queue_.empty()) return false;
  const Event event = queue_.pop();
  if (causes_ != nullptr) [[unlikely]]
    causes_->set_current(
        causes_->add(static_cast<CauseLog::Id>(queue_.popped_cause()), now(), Cause::other));
  ++event_count_;
  event.function(event.object, event.argument);
  return true;
}

}  // namespace kernbench::sim
