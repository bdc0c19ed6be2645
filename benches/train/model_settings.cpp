#include "benches/train/model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "benches/bench/inputs.h"

namespace kernbench::benches::train {

std::vector<SettingInfo> step_settings(std::string_view batch, std::string_view otherwise) {
  return {{"batch", std::string(batch),
           fmt::format("samples of a rank's step, or of a micro-batch{}", otherwise),
           SettingType::integer},
          {"dtype", "f32", "f16, bf16 or f32", SettingType::name},
          {"cubes", "",
           "of each SIP that share its rank's tokens and weights; else as many as these fill",
           SettingType::integer},
          {"pes", "", "of each of these cubes, likewise", SettingType::integer}};
}

std::vector<SettingInfo> model_settings(ModelPart part, std::string_view layers,
                                        std::string_view batch) {
  std::vector<SettingInfo> settings = {
      {"layers", std::string(layers), "blocks", SettingType::integer},
      {"hidden", "256", "features", SettingType::integer},
      {"heads", "4", "of attention", SettingType::integer}};
  if (part == ModelPart::whole) {
    settings.push_back({"vocab", "1000", "tokens", SettingType::integer});
  }
  settings.push_back({"seq", "64", "tokens of a sample", SettingType::integer});
  std::ranges::copy(step_settings(batch), std::back_inserter(settings));
  return settings;
}

ModelInput read_model(std::string_view bench, ModelPart part, ModelKind model,
                      const Settings& settings, const Topology& topology) {
  const auto integer = [&](std::string_view key) { return settings.integer(key, 1, kMost); };
  ModelInput input{.size = {.layers = integer("layers"),
                            .hidden = integer("hidden"),
                            .heads = integer("heads"),
                            .seq = integer("seq"),
                            .batch = integer("batch")},
                   .dtype = settings.choice("dtype", kDTypes)};
  if (part == ModelPart::whole) input.size.vocab = integer("vocab");
  check_size(bench, model, input.size);
  input.on = read_pes(settings, topology, input.size.tokens());
  return input;
}

}  // namespace kernbench::benches::train
