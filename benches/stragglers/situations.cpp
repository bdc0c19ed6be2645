#include "benches/stragglers/situations.h"

#include <algorithm>
#include <functional>

#include "sim_engine/base/check.h"

namespace kernbench::benches::stragglers {

namespace {

constexpr Time kForward{20'000'000};  // 20 us
constexpr Time kBackward{40'000'000};
constexpr int kSlowWorker = 6;
constexpr int kSlowdown = 2;
constexpr int kLongSample = 3;

PassTimes even(int pipelines, int stages, int microbatches) {
  PassTimes times(pipelines, stages, microbatches);
  for (int worker = 0; worker < times.workers(); ++worker) {
    for (int i = 0; i < microbatches; ++i) {
      times.at(worker, Pass::forward, i) = kForward;
      times.at(worker, Pass::backward, i) = kBackward;
    }
  }
  return times;
}

// splitmix64, as faults draw.
std::uint64_t next_draw(std::uint64_t& state) {
  std::uint64_t bits = state += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// Half of the samples are three times as long as the others, on each stage of their pipeline.
PassTimes with_sequences(std::uint64_t seed) {
  PassTimes times = even(32, 2, 2);
  std::uint64_t state = seed;
  for (int pipeline = 0; pipeline < times.pipelines(); ++pipeline) {
    for (int i = 0; i < times.microbatches(); ++i) {
      if (next_draw(state) % 2 == 0) continue;
      for (int stage = 0; stage < times.stages(); ++stage) {
        const int worker = pipeline * times.stages() + stage;
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          times.at(worker, pass, i) *= kLongSample;
        }
      }
    }
  }
  return times;
}

using Replaces = std::function<bool(int worker, Pass pass)>;

PassTimes replaced(PassTimes times, const Replaces& replaces) {
  const PassTimes given = times;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (int worker = 0; worker < times.workers(); ++worker) {
      for (int i = 0; i < times.microbatches() && replaces(worker, pass); ++i) {
        times.at(worker, pass, i) = given.mean(pass);
      }
    }
  }
  return times;
}

int find_worst(const PassTimes& times) {
  int worst = 0;
  for (int worker = 1; worker < times.workers(); ++worker) {
    if (times.sum(worker) > times.sum(worst)) worst = worker;
  }
  return worst;
}

}  // namespace

std::string_view name_of(Situation situation) {
  constexpr std::array<std::string_view, kSituations.size()> kNames = {"slow worker", "sequences",
                                                                       "last stage"};
  return kNames.at(static_cast<std::size_t>(situation));
}

PassTimes times_of(Situation situation, std::uint64_t seed) {
  if (situation == Situation::sequences) return with_sequences(seed);
  PassTimes times = situation == Situation::slow_worker ? even(4, 4, 16) : even(2, 4, 8);
  for (int worker = 0; worker < times.workers(); ++worker) {
    const bool is_slow = situation == Situation::slow_worker && worker == kSlowWorker;
    const bool has_more =
        situation == Situation::last_stage && worker % times.stages() == times.stages() - 1;
    for (int i = 0; i < times.microbatches() && (is_slow || has_more); ++i) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        Time& time = times.at(worker, pass, i);
        time = is_slow ? kSlowdown * time : time * 13 / 10;
      }
    }
  }
  return times;
}

SituationFigures simulate_situation(PointContext& point, const PassTimes& times) {
  const Topology machine = pipeline_machine(times.workers());
  const auto time_with = [&](const Replaces& replaces) {
    return pipeline_time(point, replaced(times, replaces), machine);
  };
  SituationFigures figures;
  figures.actual = time_with([](int, Pass) { return false; });
  figures.ideal = time_with([](int, Pass) { return true; });
  const double ideal = to_ns(figures.ideal);
  const auto slowdown_of = [&](const Replaces& replaces) {
    return to_ns(time_with(replaces)) / ideal;
  };
  const auto removed_by = [&](const Replaces& replaces) {
    const double lost = to_ns(figures.actual) - ideal;
    return lost > 0 ? (to_ns(figures.actual) - to_ns(time_with(replaces))) / lost : 0;
  };
  figures.slowdown = to_ns(figures.actual) / ideal;
  figures.forward = slowdown_of([](int, Pass pass) { return pass != Pass::forward; });
  figures.backward = slowdown_of([](int, Pass pass) { return pass != Pass::backward; });
  figures.worst = find_worst(times);
  figures.worst_alone = slowdown_of([&](int worker, Pass) { return worker != figures.worst; });
  figures.removed_by_worst = removed_by([&](int worker, Pass) { return worker == figures.worst; });
  figures.removed_by_last_stage =
      removed_by([&](int worker, Pass) { return worker % times.stages() == times.stages() - 1; });
  return figures;
}

}  // namespace kernbench::benches::stragglers
