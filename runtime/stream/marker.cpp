#include "runtime/stream/marker.h"

#include <utility>

namespace kernbench::runtime {

void Marker::pass(const std::shared_ptr<Marker>& marker, Simulation& simulation, Time notice,
                  std::exception_ptr failure) {
  marker->simulation_ = &simulation;
  marker->is_passed_ = true;
  marker->at_ = simulation.now();
  marker->failure_ = std::move(failure);
  simulation.keep(marker);  // for the event
  simulation.machine().engine().schedule<&Marker::become_known>(notice, marker.get(), 0,
                                                                sim::Cause::launch);
  marker->passed_.notify_all();
}

void Marker::become_known() {
  is_known_ = true;
  if (const auto call = std::exchange(when_known_, nullptr)) call();
  known_.notify_all();
  simulation_->release(this);  // may destroy it
}

void Marker::wait(Simulation& simulation, DescribeWait describe) {
  if (!is_passed_) passed_.wait(simulation, describe);
}

void Marker::wait_until_known(Simulation& simulation, DescribeWait describe) {
  if (!is_known_) known_.wait(simulation, describe);
}

}  // namespace kernbench::runtime
