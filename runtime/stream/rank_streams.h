// The streams of the caller, a rank or the single driver.  Each device has one that is current;
// the first is the default stream.

#pragma once

#include <exception>
#include <memory>
#include <set>
#include <string>

#include "runtime/stream/stream_queue.h"

namespace kernbench::runtime {

// The caller's current stream of a device.
StreamQueue& current_stream(Simulation& simulation, int device);
const std::shared_ptr<StreamQueue>& shared_current_stream(Simulation& simulation, int device);
const std::shared_ptr<StreamQueue>& default_stream(Simulation& simulation, int device);
std::shared_ptr<StreamQueue> make_stream(Simulation& simulation, int device);
void set_current_stream(Simulation& simulation, std::shared_ptr<StreamQueue> stream);

// What was current before an ahbm::StreamContext of the caller.
struct StreamScope {
  std::shared_ptr<StreamQueue> stream;  // of the device of the scope's own stream
  int device = 0;
};
std::shared_ptr<StreamScope> enter_scope(Simulation& simulation,
                                         const std::shared_ptr<StreamQueue>& stream);
// Scopes may be left in any order, and by others than who has entered them, for whom nothing
// changes.
void leave_scope(Simulation& simulation, const std::shared_ptr<StreamScope>& scope);

// Notes an operation of the caller's that runs beside its streams, for synchronize().  `what` is
// for reports.
void note_beside_streams(Simulation& simulation, std::shared_ptr<Marker> marker, std::string what);

// Block the caller until it knows that what it has issued is done: to a stream, to a device, at
// all.  Then throw what an operation has failed with; later operations of its stream were dropped.
// Return at once where nothing was queued.
void synchronize(Simulation& simulation, StreamQueue& stream);
StreamQueue& synchronize_current_stream(Simulation& simulation, int device);  // returns it
void synchronize(Simulation& simulation, int device);
void synchronize(Simulation& simulation);
// Orders all that the caller issues from now on after `done`, which it knows to be done.
void host_knows(Simulation& simulation, const StreamClock& done);
// Throws the failure of an operation that the caller knows of.
void throw_queued_failure(Simulation& simulation);

// The caller gets the marker's failure elsewhere: its streams that follow it go on.
void take_failure(Simulation& simulation, Marker& marker);

// The failure of a queued operation that no rank has noticed, but for those that have died: it may
// be why others wait for ever.
std::exception_ptr unnoticed_queued_failure(Simulation& simulation, const std::set<int>& dead);

// Blocks the driver until the streams of a rank that has died are done, or have failed.
void wait_for_streams_of(Simulation& simulation, int dead);

// The places of streams in clocks, for tests and reports.
const StreamSlots& stream_slots(Simulation& simulation);

// Takes the host's time for a launch or a collective.
void issue(Simulation& simulation);

}  // namespace kernbench::runtime
