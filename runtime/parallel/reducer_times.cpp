// Notes when a step's gradients were there, and when they were reduced.

#include <fmt/format.h>

#include <utility>

#include "runtime/parallel/reducer.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::nn::parallel {

namespace {

// torch logs the first kLoggedSteps steps, and then each kLoggingInterval-th one.
constexpr std::int64_t kLoggedSteps = 10;
constexpr std::int64_t kLoggingInterval = 100;

}  // namespace

void Reducer::begin_step() {
  step_began_ = device_instant(torch_, parameters_.front().device());
  is_logged_ = iteration_ <= kLoggedSteps || iteration_ % kLoggingInterval == 0;
  if (is_logged_) logged_.emplace_back().forward_start = step_began_;
}

// Notes an instant of this step, if the step is logged; only the first call counts.
void Reducer::log_instant(std::shared_ptr<const DeviceInstant> LoggedStep::*instant) {
  if (!is_logged_ || logged_.back().*instant != nullptr) return;
  logged_.back().*instant = device_instant(torch_, parameters_.front().device());
}

StepTimes Reducer::last_step() const {
  const int device = parameters_.front().device();
  const DeviceInstant now{torch_.engine().now(), simulation_of(torch_).activity().of(device)};
  StepTimes step = step_between(step_began_ ? *step_began_ : now, now);
  step.iteration = iteration_;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (!bucket.mean || !bucket.mean->work() || bucket.ready->at < step.begin) continue;
    const distributed::Work::Times times = bucket.mean->work().times();
    BucketTimes row{i,
                    {},
                    bucket.bytes,
                    bucket.ready->at,
                    times.started,
                    times.ended,
                    times.hidden,
                    times.ended - times.started - times.hidden,
                    {},
                    fmt::format("bucket {}", i)};
    for (const std::size_t parameter : bucket.parameters) {
      row.parameters.push_back(names_[parameter]);
    }
    step.buckets.push_back(std::move(row));
  }
  return step;
}

}  // namespace kernbench::nn::parallel
