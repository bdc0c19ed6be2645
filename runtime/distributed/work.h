// torch.distributed.Work: a collective or a message that was issued with async_op.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {
class Timeline;
}  // namespace kernbench::runtime

namespace kernbench::distributed {

// c10d's WorkResult.
enum class WorkResult : std::uint8_t { success, timeout, comm_error, unknown };

class DistributedContext;
class Future;

// A handle; copies refer to the same work.  It belongs to the rank that issued it.
class Work {
 public:
  struct State;

  Work() = default;  // what a call without async_op returns: torch's None
  // `written` are the tensors that it writes.
  explicit Work(std::shared_ptr<State> state, std::vector<Tensor> written = {});
  bool defined() const { return state_ != nullptr; }
  explicit operator bool() const { return defined(); }

  // Blocks until the work is done.  If launches are queued (ADR-0190), a collective on devices only
  // holds up the caller's current stream: what is launched from now on follows it, and the host
  // goes on.  Returns false if its run ended before, as after c10d's abort(). Works may be waited
  // for in any order, any number of times.  Throws what the work failed with; CollectiveError
  // KB-C010 on a rank that did not issue it, KB-R002 for None. The timeout is accepted but not
  // needed: a work that can never be done is reported as a deadlock.
  bool wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;
  void synchronize() const { wait(); }

  // True if the work is done, well or not.  Asking takes no simulated time, but a rank that asks
  // again and has waited for nothing since first lets time advance to the next event, so that a
  // polling loop ends.  A rank that asks for ever gets DeadlockError KB-D002.  is_success()
  // behaves the same.
  bool is_completed() const;
  bool is_success() const;               // done without failure
  std::exception_ptr exception() const;  // what it failed with, or nullptr
  WorkResult get_future_result() const;  // unknown until done; polls as is_completed() does
  std::vector<Tensor> result() const;    // the tensors that it wrote; waits
  int source_rank() const;               // of a completed recv: the sender's global rank; else -1
  Future get_future() const;             // of the first tensor that it writes
  std::uint64_t get_sequence_number() const;  // of the collective in its group
  Time get_duration() const;                  // simulated, from its issue to its end
  // Simulated times on the device; 0 before they have come.  Asking takes no time and does not
  // wait.
  struct Times {
    Time started{0};  // when what it follows was done
    Time ended{0};
    Time hidden{0};  // for how long the device ran kernels of the program between the two
  };
  Times times() const;

 private:
  friend class DistributedContext;

  State& checked() const;
  State& checked_for_wait() const;
  // Blocks the host until the work is done, also where wait() would hold up the stream alone.
  bool wait_on_host() const;

  std::shared_ptr<State> state_;
  std::vector<Tensor> written_;  // kept by handles only, not by the runtime
};

// A tensor that a collective is computing (torch.futures.Future).
class Future {
 public:
  explicit Future(Tensor value) : value_(std::move(value)) {}
  Future(Work work, Tensor value) : work_(std::move(work)), value_(std::move(value)) {}

  // Returns a future whose wait() gives next(value), as torch.futures.Future.then() does; `next`
  // runs when that is waited for.
  Future then(std::function<Tensor(const Tensor& value)> next) const;
  // Waits for the collective, as Work::wait() does, and returns what becomes of the value.
  Tensor wait();
  bool done() const { return !work_ || work_.is_completed(); }
  const Work& work() const { return work_; }

 private:
  Work work_;  // undefined if there is nothing to wait for
  Tensor value_;
  std::vector<std::function<Tensor(const Tensor&)>> next_;
};

}  // namespace kernbench::distributed
