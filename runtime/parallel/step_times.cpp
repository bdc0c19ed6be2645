#include "runtime/parallel/step_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/stream/rank_streams.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/check.h"

namespace kernbench::nn::parallel {

namespace {

double us(Time time) {
  return to_ns(time) / 1e3;
}

double percent(Time part, Time whole) {
  return whole == Time{0} ? 0 : 100 * to_ns(part) / to_ns(whole);
}

}  // namespace

std::shared_ptr<const DeviceInstant> device_instant(RuntimeContext& torch, int device) {
  runtime::Simulation& simulation = simulation_of(torch);
  const auto instant = std::make_shared<DeviceInstant>();
  const auto look = [&simulation, device, instant] {
    *instant = {simulation.now(), simulation.activity().of(device)};
  };
  if (simulation.queues_launches()) {
    runtime::current_stream(simulation, device).enqueue("an instant of a step", look);
  } else {
    look();
  }
  return instant;
}

StepTimes step_between(const DeviceInstant& begin, const DeviceInstant& end) {
  const runtime::DeviceActivity did = end.activity - begin.activity;
  StepTimes step;
  step.begin = begin.at;
  step.end = end.at;
  step.compute_only = did.computing - did.overlapped;
  step.both = did.overlapped;
  step.exposed = did.exposed();
  step.idle = end.at - begin.at - did.busy();
  KB_CHECK(step.idle >= Time{0} && step.compute_only >= Time{0} && step.exposed >= Time{0},
           "classes of a step overlap: {} ps idle", step.idle.count());
  return step;
}

std::string to_string(const StepTimes& step) {
  std::string text =
      fmt::format("# step {}: {:.3f} us\n{:>6}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}  {}\n",
                  step.iteration, us(step.end - step.begin), "bucket", "bytes", "ready", "started",
                  "ended", "hidden", "exposed", "parameters");
  for (const BucketTimes& bucket : step.buckets) {
    const std::string collective =
        bucket.collective.empty() ? "" : fmt::format("{} of {}: ", bucket.collective, bucket.name);
    text += fmt::format("{:>6}{:>12}{:>12.3f}{:>12.3f}{:>12.3f}{:>12.3f}{:>12.3f}  {}{}\n",
                        bucket.bucket, bucket.bytes, us(bucket.ready - step.begin),
                        us(bucket.started - step.begin), us(bucket.ended - step.begin),
                        us(bucket.hidden), us(bucket.exposed), collective,
                        fmt::join(bucket.parameters, " "));
  }
  const Time whole = step.end - step.begin;
  return text + fmt::format(
                    "# compute only {:.1f} %, both {:.1f} %, exposed communication {:.1f} %, "
                    "idle {:.1f} %\n",
                    percent(step.compute_only, whole), percent(step.both, whole),
                    percent(step.exposed, whole), percent(step.idle, whole));
}

}  // namespace kernbench::nn::parallel
