// torch.distributed.Work: a collective or a message that was issued with async_op.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "sim_engine/base/duration.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {
class Timeline;
}  // namespace kernbench::runtime

namespace kernbench::distributed {

// As c10d's WorkResult.
enum class WorkResult : std::uint8_t { success, timeout, comm_error, unknown };

// A handle; copies refer to the same work.  It belongs to the rank that issued it.
class Work {
 public:
  struct State;

  Work() = default;  // what a call without async_op returns: torch's None
  // `written` are the tensors that it writes.
  explicit Work(std::shared_ptr<State> state, std::vector<Tensor> written = {});
  bool defined() const { return state_ != nullptr; }
  explicit operator bool() const { return defined(); }

  // Blocks until it is done; false if its run ended before, as after c10d's abort().  Works may be
  // waited for in any order, any number of times.  Throws what the work failed with;
  // CollectiveError KB-C010 on another rank than its own, KB-R002 for None.
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

}  // namespace kernbench::distributed
