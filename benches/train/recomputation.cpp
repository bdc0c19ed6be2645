#include "benches/train/recomputation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "benches/bench/inputs.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::train {

namespace {

constexpr std::string_view kKey = "checkpoint";
constexpr std::string_view kBudget = "budget:";

}  // namespace

SettingInfo recomputation_setting() {
  return {std::string(kKey), "none",
          "none, all, selective (all but products and attention), a number of layers, or "
          "budget:BYTES for what the layers keep",
          SettingType::name};
}

Recomputation read_recomputation(const Settings& settings) {
  using Kind = Recomputation::Kind;
  const std::string& text = settings.text(kKey);
  if (text == "none") return {};
  if (text == "all") return {.kind = Kind::all};
  if (text == "selective") return {.kind = Kind::selective};
  if (text.starts_with(kBudget)) {
    return {.kind = Kind::budget,
            .budget = parse_bytes("--set checkpoint=budget:", text.substr(kBudget.size()))};
  }
  std::int64_t layers = -1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, layers);
  if (error == std::errc() && at == end && layers >= 0) {
    return {.kind = Kind::layers, .layers = layers};
  }
  throw UsageError("KB-U012",
                   "--set checkpoint={}: none, all, selective, a number of layers or budget:BYTES, "
                   "such as budget:64MiB, is wanted",
                   text);
}

void check_layers(const Recomputation& recomputation, std::int64_t layers) {
  if (recomputation.layers <= layers) return;
  throw UsageError("KB-U012", "--set checkpoint={}: the model has {} layers; give at most as many",
                   recomputation.layers, layers);
}

std::string describe(const RecomputedLayers& recomputed, std::int64_t layers) {
  const auto count = std::ranges::count(recomputed.by_layer, true);
  if (count == 0) return "";
  return fmt::format("activations of {} of {} layers are computed again{}", count, layers,
                     recomputed.keeps_products ? ", but products and attention" : "");
}

}  // namespace kernbench::benches::train
