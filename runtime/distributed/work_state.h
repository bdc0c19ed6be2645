// The state that all handles of a work share.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context/simulation.h"
#include "runtime/distributed/work.h"
#include "runtime/tensor/data_under_way.h"

namespace kernbench::distributed {

struct Group;

struct Work::State {
  State(std::shared_ptr<runtime::Simulation> in,
        std::shared_ptr<const runtime::OperationUnderWay> under_way)
      : owner(std::move(in)),
        simulation(*owner),
        operation(std::move(under_way)),
        issued(simulation.now()) {}
  ~State() { release(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Keeps a tensor in use until the work is done; `writes`: which is to write it.
  void keep(const Tensor& tensor, bool writes);
  // True if nobody has to be told of it any more: the host knows that it is done, and how.
  bool is_settled() const;
  // The host knows that it is done.
  void know() const { operation->stream->know(operation->number); }
  // True if it is under way and will write what the tensor, or a view of it, lies in.
  bool will_write(const Tensor& tensor) const;
  void finish(std::exception_ptr how);
  // Uses no tensor any more: it is done, or the run is over.
  void release();
  // A look that finds it not done.
  void poll();
  // Describes, for reports, what its rank waits for.
  std::string describe_wait() const;
  // The functions of a FiberLocal::Activity whose object is a Work::State.
  static std::string describe(const void* state);
  static std::vector<int> missing_ranks(const void* state);
  // Blocks the current fiber, or drives the engine, until it is done.
  void wait(runtime::DescribeWait describe);

  const std::shared_ptr<runtime::Simulation> owner;  // a handle may outlive its context
  runtime::Simulation& simulation;
  const std::shared_ptr<const runtime::OperationUnderWay> operation;
  int rank = 0;                                             // global
  const std::string& description = operation->description;  // with its line
  std::uint64_t sequence = 0;
  struct Use {
    Tensor tensor;
    bool writes = false;
  };
  std::vector<Use> uses;  // host reads of them wait until it is done
  int source_rank = -1;
  bool is_message = false;     // else a collective
  std::optional<int> peer;     // of a message: the rank that must call too; nullopt: any
  std::weak_ptr<Group> group;  // that it is of
  runtime::FlightRecorder::Id flight = 0;
  Time polled_at{0};              // when it was looked at last and was not done
  std::uint64_t polled_turn = 0;  // of the scheduler, likewise
  Time issued{0};
  Time ended{0};
  bool is_done = false;
  bool is_aborted = false;     // done, because the run ended before
  bool is_waited_for = false;  // or its end was seen otherwise: by a look, or a host read
  std::exception_ptr failure;
  runtime::Event done;
};

}  // namespace kernbench::distributed
