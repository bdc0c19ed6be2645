#include "benches/variants/reruns.h"

namespace kernbench::benches::variants {

Reruns::Reruns(BenchRun& whole, std::span<const FinishedPoint> known, ProcessTeam* team)
    : run_({.topology = whole.request.topology,
            .ccl = whole.request.ccl,
            .seed = whole.request.seed,
            .folds = whole.request.folds,
            .jobs = whole.request.jobs,
            .team = team,
            .shows_progress = whole.request.shows_progress,
            .known = known},
           whole.settings, silent_, whole.contexts) {}

}  // namespace kernbench::benches::variants
