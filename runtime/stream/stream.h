// torch.ahbm.Stream and torch.ahbm.Event, modelled on torch.cuda's (ADR-0190).

#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "sim_engine/base/units.h"

namespace kernbench {

namespace runtime {
class Simulation;
class StreamQueue;
struct StreamScope;
}  // namespace runtime

namespace ahbm {

class Event;

// A sequence of kernels on a device, which run in the order of their launches, beside those of
// other streams.  A handle; copies refer to the same stream.  It belongs to the rank that made it.
// The methods of Stream, Event and StreamContext throw CollectiveError KB-R012 inside a kernel,
// KB-R013 when the context has ended, KB-R020 on another rank, and DeviceError KB-M013 for a stream
// and an event of two contexts.
class Stream {
 public:
  Stream(std::shared_ptr<runtime::Simulation> simulation,
         std::shared_ptr<runtime::StreamQueue> queue)
      : simulation_(std::move(simulation)), queue_(std::move(queue)) {}

  int device_index() const;

  // Launches on this stream begin, from now on, after all that the other stream, or the event's
  // stream before its record(), has been given so far.  The host does not wait.
  void wait_stream(const Stream& other) const;
  void wait_event(const Event& event) const;
  // Records `event`, or a new one, behind what was launched so far.
  void record_event(const Event& event) const;
  Event record_event() const;

  // Makes it the current stream of its device (torch.cuda.set_stream).
  void make_current() const;

  // Blocks the host until all that was launched is done.  Throws what a kernel has failed with.
  void synchronize() const;
  // True if all is done.  A loop that asks ends, as one of Work::is_completed() does.
  bool query() const;

  friend bool operator==(const Stream& a, const Stream& b) { return a.queue_ == b.queue_; }

  // Throws DeviceError KB-M013 unless it belongs to this context.
  void check_belongs_to(const runtime::Simulation& simulation, std::string_view call) const;

 private:
  friend class Event;
  friend class StreamContext;

  runtime::StreamQueue& checked(std::string_view call) const;

  std::shared_ptr<runtime::Simulation> simulation_;
  std::shared_ptr<runtime::StreamQueue> queue_;
};

struct EventOptions {
  bool enable_timing = false;
};

// A point in a stream.  A handle; copies refer to the same event.
class Event {
 public:
  explicit Event(std::shared_ptr<runtime::Simulation> simulation, const EventOptions& options = {});

  // Places it behind what its stream, or the current one, was given so far; again: anew.
  void record() const;
  void record(const Stream& stream) const;
  // Acts as Stream::wait_event(), for the current stream without an argument.  An event that was
  // not recorded holds up nothing.
  void wait() const;
  void wait(const Stream& stream) const;
  // True if the device has reached it, or it was not recorded.
  bool query() const;
  // Blocks the host until then.  Throws what a kernel has failed with.
  void synchronize() const;
  // Milliseconds of simulated time from this event to `end`, on the device.  Throws CollectiveError
  // KB-R019 unless both were made with enable_timing, recorded, and reached.
  double elapsed_time(const Event& end) const;

 private:
  friend class Stream;
  struct State;

  State& checked(std::string_view call) const;
  Time reached() const;

  std::shared_ptr<State> state_;
};

// Makes a stream the current one of its device, and that device the current one, for as long as it
// lives: torch.cuda.stream(s) of a `with`.  They may end in any order: the one that began last
// counts, of those that live.
class [[nodiscard]] StreamContext {
 public:
  explicit StreamContext(const Stream& stream);
  ~StreamContext();
  StreamContext(const StreamContext&) = delete;
  StreamContext& operator=(const StreamContext&) = delete;

 private:
  std::shared_ptr<runtime::Simulation> simulation_;
  std::shared_ptr<runtime::StreamScope> scope_;
};

}  // namespace ahbm
}  // namespace kernbench
