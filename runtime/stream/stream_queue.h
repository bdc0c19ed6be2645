// A stream: what a rank has issued to a device, which runs it in order while the rank goes on
// (ADR-0190).
//
// Timing:  an operation is at the device when a message has come from the host
// (Launcher::host_leg),
//          and begins when the one before it has ended.  The host knows of its end after the same
//          time.

#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "runtime/simulation/gate.h"
#include "runtime/stream/marker.h"
#include "runtime/stream/stream_clock.h"
#include "runtime/stream/stream_host.h"

namespace kernbench::runtime {

// A rank that has issued this many operations to a stream waits until the device has taken one up,
// as on CUDA: else a loop of launches would run ahead for as long as the host's memory lasts.
inline constexpr std::size_t kMostQueued = 1024;

class StreamQueue : public std::enable_shared_from_this<StreamQueue> {
 public:
  // The caller's.  `slot` is the stream's own, and its number unique in the simulation.
  StreamQueue(Simulation& simulation, int device, std::shared_ptr<StreamSlot> slot,
              const std::shared_ptr<StreamHost>& host);
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  int device() const { return device_; }
  int number() const { return slot_->stream(); }
  const Owner& owner() const { return owner_; }

  // Issues an operation: `body` runs on a fiber, when what was enqueued before has ended.  It is
  // destroyed when the host knows of its end.  If it throws, later operations are dropped until
  // take_failure().  The caller waits while kMostQueued operations do.  `what` is for reports:
  // "kernel 'add' at ddp.cpp:41".
  std::shared_ptr<Marker> enqueue(std::string what, std::function<void()> body);
  // Makes all that is enqueued from now on begin after the marker, and fail if the marker has
  // failed.  `before` is what the marker's operation follows.
  void follow(std::string what, std::shared_ptr<Marker> marker, const StreamClock& before);

  // The last operation, null if there was none; and its place in the order of all.
  const std::shared_ptr<Marker>& last() const { return last_; }
  StreamPosition position() const;
  // True if the host knows that everything has ended.
  bool is_idle() const;
  // True if it is idle and has no failure that somebody is yet to take.
  bool is_settled();
  // The host no longer keeps the stream (StreamHost::note()).
  void end_note() { is_noted_ = false; }

  const std::exception_ptr& failure() const { return failure_; }
  std::exception_ptr take_failure();
  const std::string& description() const { return description_; }
  // "kernel 'add' at ddp.cpp:41 on stream 0 of device 0": what it performs, or else is to perform.
  std::string describe_next() const;

 private:
  struct Operation {
    std::string what;
    Time arrives{0};
    std::function<void()> body;
    std::shared_ptr<Marker> marker;
  };

  void forget_abandoned_run();
  void wait_for_room();
  void run();
  void perform(Operation& operation);

  Simulation& simulation_;
  const int device_;
  const std::shared_ptr<StreamSlot> slot_;
  const Owner owner_;
  const std::weak_ptr<StreamHost> host_;  // its list has this stream
  const std::string description_;
  FiberLocal local_;
  std::deque<Operation> waiting_;
  const Operation* performed_ = nullptr;  // now; null: none
  bool is_running_ = false;
  bool is_noted_ = false;  // by the host
  std::shared_ptr<Marker> last_;
  StreamClock before_;  // without what the host knows
  std::exception_ptr failure_;
  std::uint64_t abandoned_runs_ = 0;  // of the simulation, when the last operation was enqueued
};

}  // namespace kernbench::runtime
