#include "runtime/distributed/collective_stream.h"

#include <utility>

#include "runtime/distributed/work_state.h"
#include "runtime/stream/rank_streams.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

using runtime::FiberResult;

CollectiveStream::CollectiveStream(runtime::Simulation& simulation, int rank, End end)
    : simulation_(simulation), end_(std::move(end)) {
  local_.kind = runtime::FiberLocal::Kind::work;
  local_.rank = rank;
  local_.is_on_device = true;
}

void CollectiveStream::wait_for_room() {
  while (operations_.size() >= runtime::kMostQueued) {
    const std::shared_ptr<Work::State> first = operations_.front().work;
    first->wait_on_device([&] { return first->description; });
  }
}

void CollectiveStream::enqueue(Operation operation) {
  operations_.push_back(std::move(operation));
  if (std::exchange(is_running_, true)) return;
  simulation_.fibers().spawn(
      runtime::FiberName(runtime::write_name), [this] { run(); }, &local_,
      [self = shared_from_this()](runtime::Fiber&, const FiberResult& result) {
        self->is_running_ = false;
        const auto left = std::exchange(self->operations_, {});  // only if the run is over
        for (const Operation& dropped : left) self->end_(dropped.work, result);
      });
}

void CollectiveStream::run() {
  while (!operations_.empty()) {
    FiberResult result;
    local_.device = operations_.front().work->device;
    local_.write = operations_.front().write;
    try {
      operations_.front().body();
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      result = {FiberResult::How::threw, std::current_exception()};
    }
    const Operation ended = std::move(operations_.front());
    operations_.pop_front();
    end_(ended.work, result);
  }
}

}  // namespace kernbench::distributed
