// The state that all handles of a work share.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/distributed/call_record.h"
#include "runtime/distributed/work.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/marker.h"
#include "runtime/stream/stream_clock.h"
#include "runtime/tensor/data_under_way.h"

namespace kernbench::distributed {

struct Group;

struct Work::State final : runtime::Activity {
  State(std::shared_ptr<runtime::Simulation> in, CallRecord of,
        std::shared_ptr<const runtime::OperationUnderWay> under_way, std::weak_ptr<Group> in_group)
      : owner(std::move(in)),
        simulation(*owner),
        record(std::move(of)),
        operation(std::move(under_way)),
        group(std::move(in_group)) {}
  ~State() { release(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Keeps a tensor in use until the work is done.  `writes`: the work will write it.
  void keep(const Tensor& tensor, bool writes);
  // Tells the tensors that it writes the number of this write.
  void note_writes(std::uint64_t write) const;
  // True if nobody has to be told about the work any more: the host knows that it is done, and how
  // it ended.
  bool is_settled() const;
  // Records that the host knows that the work is done.
  void know() const { operation->stream->know(operation->number); }
  // True if the work is under way and will write elements that the tensor, or a view of it,
  // shares.
  bool will_write(const Tensor& tensor) const;
  void finish(std::exception_ptr how);
  // Tells what explores schedules.
  void touch(runtime::ScheduleChoices::Touch how) const;
  void note_look() const;
  // Ends the use of all tensors: the work is done, or the run is over.
  void release();
  std::string describe() const override { return description; }
  std::vector<int> missing_ranks() const override;
  // Describes for reports what the waiting rank waits for.
  std::string describe_wait() const;
  // Returns the rank at the other end of a message; -1 if it may be any rank, and for a collective.
  int peer() const { return record.event().peer; }
  // Blocks the current fiber, or drives the engine, until the work is done: until the host knows
  // it, or, of a work on a stream, until the device has.
  void wait(runtime::DescribeWait describe);
  void wait_on_device(runtime::DescribeWait describe);
  // True if the caller's streams can wait for it instead of the host.
  bool is_on_stream() const { return marker != nullptr; }
  // Makes all that the caller launches from now on follow the work, whose failure becomes the
  // stream's.
  void order_stream();

  const std::shared_ptr<runtime::Simulation> owner;  // a handle may outlive its context
  runtime::Simulation& simulation;
  const CallRecord record;
  const std::shared_ptr<const runtime::OperationUnderWay> operation;
  const std::weak_ptr<Group> group;                         // in which it was issued
  const std::string& description = operation->description;  // includes the call site
  struct Use {
    Tensor tensor;
    bool writes = false;
  };
  std::vector<Use> uses;  // host reads of these tensors wait until the work is done
  int source_rank = -1;
  runtime::Looks looks;
  // An instant on the device, and how long it has run kernels of the program by then.
  struct Instant {
    Time at{0};
    Time computing{0};
  };
  Instant instant() const;
  Instant started;  // those before it in its group are done
  Instant ended_on_device;
  Time ended{0};  // when the host knows of it
  bool is_done = false;
  bool holds_up_host = false;  // until it is done, who waits for it does not know how a tensor lies
  bool is_aborted = false;     // ended because the run ended first
  bool is_waited_for = false;  // or its end was seen by a poll or a host read
  std::exception_ptr failure;
  runtime::Event done;
  std::shared_ptr<runtime::Marker> marker;  // its end on the device; null: it is on no stream
  runtime::StreamClock follows;             // of a work on a stream
  int device = 0;                           // of a collective
};

}  // namespace kernbench::distributed
