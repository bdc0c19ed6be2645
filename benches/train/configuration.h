// Language models by name, whose sizes may each be overruled: `--set config=gpt2 hidden=1024`.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/settings.h"
#include "benches/train/training.h"

namespace kernbench::benches::train {

enum class Configuration : std::uint8_t { none, gpt2, llama3_8b, llama3_70b };
std::string_view name_of(Configuration configuration);

struct ConfiguredModel {
  Configuration configuration = Configuration::none;
  ModelKind kind = ModelKind::gpt;
  LanguageModelSize size = {};
  bool has_given_layers = true;  // by a setting, or without a configuration
  std::string changes = {};      // "hidden 1024, vocab 512": the settings that overrule it
};

// The published sizes: of GPT-2, the smallest of openai/gpt-2 (124M); of Llama 3, table 3 of arXiv
// 2407.21783.  `seq` is what each was trained with.  None has the sizes of LanguageModelSize.
ConfiguredModel published_model(Configuration configuration);

// The sizes of a bench's model without a configuration, and what it takes.
struct UnnamedModel {
  LanguageModelSize size = {};
  std::int64_t least_vocab = 1;
  std::int64_t most_seq = 8192;
};

// Returns config, model, layers, hidden, heads, kv_heads, ffn, vocab and seq.  `layers` says which
// are taken if none are given.
std::vector<SettingInfo> configured_settings(const UnnamedModel& unnamed, std::string_view layers);

// Reads configured_settings() and batch; layers that are not given are all of the configuration,
// and a configuration's step has one sample unless more are given.
// Throws UsageError KB-U012 for values that are none.
ConfiguredModel read_model(const Settings& settings, const UnnamedModel& unnamed);

// "2 of the 32 layers of llama3-8b with vocab 1024"; empty without a configuration.
// REQUIRES: the model's layers are those that are trained
std::string describe_layers(const ConfiguredModel& model);

}  // namespace kernbench::benches::train
