#include "benches/train/configuration.h"

#include <fmt/format.h>

#include <array>

#include "sim_engine/base/enum_names.h"

namespace kernbench::benches::train {

namespace {

constexpr std::array kConfigurations = {Configuration::none, Configuration::gpt2,
                                        Configuration::llama3_8b, Configuration::llama3_70b};
constexpr std::array kModels = {ModelKind::gpt, ModelKind::llama};
constexpr std::int64_t kMostOfSize = std::int64_t{1} << 20;

struct PublishedModel {
  ModelKind kind = ModelKind::gpt;
  LanguageModelSize size = {};
};

// By configuration.
constexpr std::array<PublishedModel, kConfigurations.size()> kPublished = {{
    {},
    {ModelKind::gpt, {.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257, .seq = 1024}},
    {ModelKind::llama,
     {.layers = 32,
      .hidden = 4096,
      .heads = 32,
      .kv_heads = 8,
      .ffn = 14336,
      .vocab = 128256,
      .seq = 8192}},
    {ModelKind::llama,
     {.layers = 80,
      .hidden = 8192,
      .heads = 64,
      .kv_heads = 8,
      .ffn = 28672,
      .vocab = 128256,
      .seq = 8192}},
}};

// A key, and the number of the size that it overrules.
struct SizeKey {
  std::string_view key;
  std::int64_t LanguageModelSize::*number;
  bool is_of_model = true;  // rather than of a step
};

constexpr std::array kSizeKeys = {
    SizeKey{"layers", &LanguageModelSize::layers, false},
    SizeKey{"hidden", &LanguageModelSize::hidden},
    SizeKey{"heads", &LanguageModelSize::heads},
    SizeKey{"kv_heads", &LanguageModelSize::kv_heads},
    SizeKey{"ffn", &LanguageModelSize::ffn},
    SizeKey{"vocab", &LanguageModelSize::vocab},
    SizeKey{"seq", &LanguageModelSize::seq, false},
    SizeKey{"batch", &LanguageModelSize::batch, false},
};

void add_change(std::string& changes, std::string_view text) {
  if (!changes.empty()) changes += ", ";
  changes += text;
}

}  // namespace

std::string_view name_of(Configuration configuration) {
  constexpr std::array<std::string_view, kConfigurations.size()> kNames = {
      "none", "gpt2", "llama3-8b", "llama3-70b"};
  return name_in(kNames, configuration);
}

ConfiguredModel published_model(Configuration configuration) {
  const auto& [kind, size] = kPublished[static_cast<std::size_t>(configuration)];
  return {.configuration = configuration, .kind = kind, .size = size};
}

std::vector<SettingInfo> configured_settings(const UnnamedModel& unnamed, std::string_view layers) {
  const LanguageModelSize& size = unnamed.size;
  const auto or_config = [](std::string_view what, std::int64_t otherwise) {
    return fmt::format("{}; else the config's, or {}", what, otherwise);
  };
  const std::string tokens =
      unnamed.least_vocab > 1
          ? fmt::format("tokens, the text has bytes below {}", unnamed.least_vocab)
          : "tokens";
  return {
      {"config", "none",
       "gpt2, llama3-8b or llama3-70b: a model's sizes, of which each key overrules its own",
       SettingType::name},
      {"model", "", "gpt or llama; else the config's, or gpt", SettingType::name},
      {"layers", "", fmt::format("blocks; else {}", layers), SettingType::integer},
      {"hidden", "", or_config("features", size.hidden), SettingType::integer},
      {"heads", "", or_config("of attention", size.heads), SettingType::integer},
      {"kv_heads", "", "of keys and values; else the config's, or heads", SettingType::integer},
      {"ffn", "", "features of the MLP; else the config's, or 4 hidden", SettingType::integer},
      {"vocab", "", or_config(tokens, size.vocab), SettingType::integer},
      {"seq", "", or_config(fmt::format("tokens of a sample, to {}", unnamed.most_seq), size.seq),
       SettingType::integer}};
}

ConfiguredModel read_model(const Settings& settings, const UnnamedModel& unnamed) {
  ConfiguredModel model = published_model(settings.choice("config", kConfigurations));
  const bool is_published = model.configuration != Configuration::none;
  if (is_published) {
    model.size.batch = 1;
  } else {
    model.size = unnamed.size;
  }
  if (settings.is_set("model")) {
    const ModelKind kind = settings.choice("model", kModels);
    if (kind != model.kind) add_change(model.changes, name_of(kind));
    model.kind = kind;
  }
  for (const SizeKey& key : kSizeKeys) {
    if (!settings.is_set(key.key)) continue;
    std::int64_t& number = model.size.*key.number;
    const std::int64_t least = key.key == "vocab" ? unnamed.least_vocab : 1;
    const std::int64_t most = key.key == "seq" ? unnamed.most_seq : kMostOfSize;
    const std::int64_t given = settings.integer(key.key, least, most);
    if (key.is_of_model && given != number) {
      add_change(model.changes, fmt::format("{} {}", key.key, given));
    }
    number = given;
  }
  model.has_given_layers = !is_published || settings.is_set("layers");
  return model;
}

std::string describe_layers(const ConfiguredModel& model) {
  if (model.configuration == Configuration::none) return "";
  const std::int64_t all = published_model(model.configuration).size.layers;
  const std::int64_t layers = model.size.layers;
  const std::string_view name = name_of(model.configuration);
  std::string text = layers < all    ? fmt::format("{} of the {} layers of {}", layers, all, name)
                     : layers == all ? fmt::format("all {} layers of {}", all, name)
                                     : fmt::format("{} layers as those of {}", layers, name);
  if (!model.changes.empty()) text += " with " + model.changes;
  return text;
}

}  // namespace kernbench::benches::train
