#include "runtime/distributed/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

void Work::State::keep(const Tensor& tensor) {
  tensor.storage()->begin_use();
  tensor.storage()->memory->works.push_back(&description);
  uses.push_back(tensor);
}

void Work::State::finish(std::exception_ptr how) {
  is_done = true;
  failure = std::move(how);
  ended = simulation.now();
  if (failure == nullptr && !simulation.has_failed()) {  // and is not just unwound
    simulation.flight_recorder().complete(rank, flight, ended);
    simulation.log(runtime::LogTopic::distributed,
                   [&] { return fmt::format("{} completed (rank {})", description, rank); });
  }
  release();
  for (runtime::Completion* waiter : std::exchange(waiters, {})) waiter->signal();
}

void Work::State::release() {
  for (const Tensor& tensor : std::exchange(uses, {})) {
    std::erase(tensor.storage()->memory->works, &description);
    tensor.storage()->end_use();
  }
}

void Work::State::wait(runtime::DescribeWait describe) {
  if (is_done) return;
  runtime::Completion done(simulation);
  waiters.push_back(&done);
  try {
    simulation.wait(done, describe);
  } catch (...) {
    std::erase(waiters, &done);
    throw;
  }
}

// In one turn of its fiber nothing else happens, so the answer cannot change.
void Work::State::polled() {
  constexpr int kMostPolls = 1'000'000;
  const std::uint64_t turn = simulation.fibers().turn();
  poll_count = turn == polled_turn ? poll_count + 1 : 1;
  polled_turn = turn;
  if (poll_count < kMostPolls) return;
  throw DeadlockError(
      "KB-D002", fmt::format("no progress: rank {} asked {} times at t={} whether {} is completed, "
                             "and nothing can complete it meanwhile; call wait()",
                             rank, poll_count, to_string(simulation.now()), description));
}

Work::State& Work::checked() const {
  if (state_ == nullptr) {
    throw CollectiveError("KB-R002",
                          "the Work is None: the call that returned it was not made with "
                          "async_op, or by a rank that is no member of its group");
  }
  return *state_;
}

bool Work::wait(std::optional<std::chrono::milliseconds>) const {
  State& state = checked();
  runtime::FiberLocal& local = state.simulation.local();
  if (local.kind == runtime::FiberLocal::Kind::rank && local.rank != state.rank) {
    throw CollectiveError("KB-C010", fmt::format("rank {} waits for the Work of rank {}: {}",
                                                 local.rank, state.rank, state.description));
  }
  state.is_waited_for = true;
  local.waits_for_rank = state.peer;
  state.wait([&] { return fmt::format("the Work of {}", state.description); });
  local.waits_for_rank.reset();
  if (state.failure != nullptr) std::rethrow_exception(state.failure);
  return !state.is_aborted;
}

bool Work::is_completed() const {
  if (!checked().is_done) state_->polled();
  return state_->is_done;
}
bool Work::is_success() const {
  return checked().is_done && state_->failure == nullptr && !state_->is_aborted;
}
std::exception_ptr Work::exception() const {
  return checked().failure;
}
WorkResult Work::get_future_result() const {
  if (!checked().is_done) return WorkResult::unknown;
  return is_success() ? WorkResult::success : WorkResult::comm_error;
}
std::vector<Tensor> Work::result() const {
  wait();
  return state_->tensors;
}
int Work::source_rank() const {
  return checked().source_rank;
}
std::uint64_t Work::get_sequence_number() const {
  return checked().sequence;
}
Time Work::get_duration() const {
  return checked().is_done ? state_->ended - state_->issued : Time{0};
}

}  // namespace kernbench::distributed
