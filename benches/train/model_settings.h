// The settings of the language model whose steps a bench measures.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "benches/bench/settings.h"
#include "benches/train/language_model.h"
#include "benches/train/training.h"
#include "benches/train/used_pes.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::train {

inline constexpr int kMostRanks = 1024;
inline constexpr std::int64_t kMost = std::int64_t{1} << 20;  // of a setting

enum class ModelPart : std::uint8_t { whole, blocks };  // blocks alone have no vocabulary

// Returns batch, dtype, cubes and pes.  `otherwise` says what an empty batch is.
std::vector<SettingInfo> step_settings(std::string_view batch, std::string_view otherwise = "");

// Returns layers, hidden, heads, vocab and seq, and step_settings().
std::vector<SettingInfo> model_settings(ModelPart part, std::string_view layers,
                                        std::string_view batch);

struct ModelInput {
  LanguageModelSize size = {};
  DType dtype = DType::f32;
  UsedPes on = {};
};

// Reads these settings.  Throws UsageError KB-U012 for a size that is none, naming the bench.
ModelInput read_model(std::string_view bench, ModelPart part, ModelKind model,
                      const Settings& settings, const Topology& topology);

}  // namespace kernbench::benches::train
