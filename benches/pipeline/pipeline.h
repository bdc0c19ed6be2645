// pipeline: a training step of a model that is cut in stages, by schedule.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::pipeline {

BenchInfo pipeline_bench();

}  // namespace kernbench::benches::pipeline
