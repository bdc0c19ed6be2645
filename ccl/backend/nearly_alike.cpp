// Collectives of ranks that are only nearly alike, which take the time that their model gives.

#include <optional>
#include <string>

#include "ccl/backend/communicator.h"
#include "ccl/backend/request_checks.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"

namespace kernbench::ccl {

using distributed::CollectiveCall;

namespace {

// The largest collective whose model's time stands for that of ranks which take unlike steps.
constexpr Bytes kMostByModel = 64 << 10;

}  // namespace

// A root does not do as the others, so none of the ranks that stand for others can show what they
// do: where that may be, each takes the time that all of them take by the model.  Weights and
// buffers are broadcast before a step's kernels, so that none run beside them.
void GroupCommunicator::run_by_model(const CollectiveCall& call, const Algorithm& algorithm) {
  std::optional<Time> time;
  if (torch_.options().folds_nearly) {
    time = choice_.time_of(algorithm, call.kind, moved_by(call));
  }
  if (!time) distributed::refuse_unlike(call.event.function, "its root does something else");
  sleep_for(call, *time);
}

// Chunks of unequal sizes are mostly all that members differ by.
bool GroupCommunicator::make_alike(PlannedCall& planned) const {
  if (planned.are_members_alike()) return true;
  if (!torch_.options().folds_nearly) return false;
  planned.prepare_equal_chunks();
  return planned.are_members_alike();
}

void GroupCommunicator::sleep_for(const CollectiveCall& call, Time time) {
  simulation_of(torch_).attachments().get<distributed::ModelledTime>().sum += time / caller_count();
  simulation_of(torch_).sleep(
      time, [] { return std::string("a collective that takes its model's time"); },
      sim::Cause::other);
  if (writes(call, call.rank)) mark_replicated(call.takes);
}

// A small collective is mostly latencies, which the model knows; a large one would not hold up the
// kernels beside it as its messages do.
Time GroupCommunicator::time_of_unlike(const PlannedCall& planned) const {
  const CollectiveCall& call = planned.request(0);
  const Algorithm& algorithm = *planned.settings().algorithm;
  std::optional<Time> time;
  if (torch_.options().folds_nearly && bytes_of(call) <= kMostByModel) {
    time = choice_.time_of(algorithm, planned.settings().kind, moved_by(call));
  }
  if (!time) distributed::refuse_unlike(algorithm.name, "its members take unlike steps");
  return *time;
}

}  // namespace kernbench::ccl
