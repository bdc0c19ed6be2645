// Three situations of stragglers that ByteDance has found in its jobs (arXiv 2505.05713), built by
// hand: a slow worker, samples of unequal length, and a last stage with more to do.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "benches/bench/bench.h"
#include "benches/stragglers/pipeline.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::stragglers {

enum class Situation : std::uint8_t { slow_worker, sequences, last_stage };
inline constexpr std::array kSituations = {Situation::slow_worker, Situation::sequences,
                                           Situation::last_stage};
std::string_view name_of(Situation situation);

PassTimes times_of(Situation situation, std::uint64_t seed);

// The figures of a situation.  The ideal step gives each pass the mean of its times over all
// workers and microbatches; S_t, S_w: only one pass, or the worst worker, keeps its own; M_w and
// M_s: what the ideal times of the worst worker, or of all of the last stage, take away of what is
// lost.
struct SituationFigures {
  Time actual{0};
  Time ideal{0};
  double slowdown = 1;
  double forward = 1;
  double backward = 1;
  int worst = 0;
  double worst_alone = 1;
  double removed_by_worst = 0;
  double removed_by_last_stage = 0;
};

SituationFigures simulate_situation(PointContext& point, const PassTimes& times);

}  // namespace kernbench::benches::stragglers
