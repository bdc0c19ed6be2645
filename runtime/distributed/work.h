// torch.distributed.Work: a collective or a message that was issued with async_op.

#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context/simulation.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::distributed {

// As c10d's WorkResult.
enum class WorkResult : std::uint8_t { success, timeout, comm_error, unknown };

// A handle; copies refer to the same work.  It belongs to the rank that issued it.
class Work {
 public:
  struct State;

  Work() = default;  // what a call without async_op returns: torch's None
  // `written` are the tensors that it writes.
  explicit Work(std::shared_ptr<State> state, std::vector<Tensor> written = {})
      : state_(std::move(state)), written_(std::move(written)) {}
  bool defined() const { return state_ != nullptr; }
  explicit operator bool() const { return defined(); }

  // Blocks until it is done, at once if it is; false if its run ended before, as c10d's abort().
  // Any number of times, in any order.  Throws what the
  // work failed with; CollectiveError KB-C010 on another rank than its own, KB-R002 for None.
  // The timeout is accepted and not needed: what can never be done is a deadlock, and reported.
  bool wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;
  void synchronize() const { wait(); }

  // Whether it is done, well or not.  Asking takes no simulated time; but a rank that asks again,
  // and has waited for nothing since, first lets time go on to the next event, so that a loop that
  // polls ends.  One that asks for ever gets DeadlockError KB-D002.  So with is_success().
  bool is_completed() const;
  bool is_success() const;               // it is done, and well
  std::exception_ptr exception() const;  // what it failed with, or nullptr
  WorkResult get_future_result() const;  // unknown: it is not done; as is_completed()
  std::vector<Tensor> result() const;    // the tensors that it wrote; waits
  int source_rank() const;  // of a recv that is done: the sender's global rank, else -1
  std::uint64_t get_sequence_number() const;  // of the collective in its group
  Time get_duration() const;                  // simulated, from its issue to its end

 private:
  State& checked() const;

  std::shared_ptr<State> state_;
  std::vector<Tensor> written_;  // by handles alone: the runtime keeps no tensor of what is done
};

struct Group;

struct Work::State {
  explicit State(std::shared_ptr<runtime::Simulation> in)
      : owner(std::move(in)), simulation(*owner), issued(simulation.now()) {}
  ~State() { release(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Keeps a tensor in use until the work is done; `writes`: which is to write it.
  void keep(const Tensor& tensor, bool writes);
  // Whether it is under way and will write what the tensor, or a view of it, lies in.
  bool will_write(const Tensor& tensor) const;
  void finish(std::exception_ptr how);
  // Uses no tensor any more: it is done, or the run is over.
  void release();
  // A look that finds it not done.
  void poll();
  // What its rank waits for, for reports.
  std::string describe_wait() const;
  // Of a Work::State: FiberLocal::Activity.
  static std::string describe(const void* state);
  static std::vector<int> missing_ranks(const void* state);
  // Blocks the current fiber, or drives the engine, until it is done.
  void wait(runtime::DescribeWait describe);

  const std::shared_ptr<runtime::Simulation> owner;  // a handle may outlive its context
  runtime::Simulation& simulation;
  int rank = 0;             // global
  std::string description;  // "all_reduce#3 ([10] Half SUM) at ddp.cpp:41"
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
  std::vector<runtime::Completion*> waiters;
};

// A rank's works that are not done, or have failed without being waited for; in the order of their
// issue.
class WorkList {
 public:
  void add(std::shared_ptr<Work::State> work);
  std::shared_ptr<Work::State> take_last();  // null: there is none
  // With some that are done.
  const std::vector<std::shared_ptr<Work::State>>& all() const { return works_; }

 private:
  std::vector<std::shared_ptr<Work::State>> works_;
  std::size_t forget_at_ = 0;  // of this size: so that each is looked at a few times only
};

}  // namespace kernbench::distributed
