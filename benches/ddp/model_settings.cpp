#include "benches/ddp/model_settings.h"

#include <string>

#include "benches/bench/inputs.h"

namespace kernbench::benches::ddp {

std::vector<SettingInfo> model_settings(std::string_view layers) {
  return {{"layers", std::string(layers), "blocks", SettingType::integer},
          {"hidden", "256", "features", SettingType::integer},
          {"heads", "4", "of attention", SettingType::integer},
          {"vocab", "1000", "tokens", SettingType::integer},
          {"seq", "64", "tokens of a sample", SettingType::integer},
          {"batch", "1", "samples of a rank's step", SettingType::integer},
          {"dtype", "f32", "f16, bf16 or f32", SettingType::name},
          {"cubes", "",
           "of each SIP that share its rank's tokens and weights; else as many as these fill",
           SettingType::integer},
          {"pes", "", "of each of these cubes, likewise", SettingType::integer}};
}

StepInput read_model(std::string_view bench, train::ModelKind model, const Settings& settings,
                     const Topology& topology) {
  const auto integer = [&](std::string_view key) { return settings.integer(key, 1, kMost); };
  StepInput input{.model = model,
                  .size = {.layers = integer("layers"),
                           .hidden = integer("hidden"),
                           .heads = integer("heads"),
                           .vocab = integer("vocab"),
                           .seq = integer("seq"),
                           .batch = integer("batch")},
                  .dtype = settings.choice("dtype", kDTypes)};
  train::check_size(bench, input.model, input.size);
  input.on = train::read_pes(settings, topology, input.size.tokens());
  return input;
}

}  // namespace kernbench::benches::ddp
