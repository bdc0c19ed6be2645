// The settings of the language model whose step ddp and stragglers take.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "benches/bench/settings.h"
#include "benches/ddp/measured_step.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::ddp {

inline constexpr int kMostRanks = 1024;
inline constexpr std::int64_t kMost = std::int64_t{1} << 20;  // of a setting

// Returns layers, hidden, heads, vocab, seq, batch, dtype, cubes and pes.
std::vector<SettingInfo> model_settings(std::string_view layers);

// Reads these settings.  Throws UsageError KB-U012 for a size that is none, naming the bench.
StepInput read_model(std::string_view bench, train::ModelKind model, const Settings& settings,
                     const Topology& topology);

}  // namespace kernbench::benches::ddp
