// train: a language model over the bytes of a text, on one PE or several (ADR-0135).

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::train {

BenchInfo train_bench();

}  // namespace kernbench::benches::train
