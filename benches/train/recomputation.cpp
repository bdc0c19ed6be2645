#include "benches/train/recomputation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "benches/bench/inputs.h"
#include "sim_engine/base/check.h"
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

std::string name_of(const Recomputation& recomputation) {
  using Kind = Recomputation::Kind;
  switch (recomputation.kind) {
    case Kind::none:
      return "none";
    case Kind::all:
      return "all";
    case Kind::selective:
      return "selective";
    case Kind::layers:
      return std::to_string(recomputation.layers);
    case Kind::budget:
      break;
  }
  return std::string(kBudget) + std::to_string(recomputation.budget);
}

Recomputation read_recomputation(const Settings& settings) {
  return parse_recomputation(settings.text(kKey));
}

Recomputation parse_recomputation(std::string_view text) {
  using Kind = Recomputation::Kind;
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

RecomputedLayers find_recomputed(const Recomputation& recomputation, std::int64_t layers) {
  using Kind = Recomputation::Kind;
  KB_CHECK(recomputation.kind != Kind::budget, "a budget of {} B", recomputation.budget);
  const std::int64_t first = recomputation.kind == Kind::none     ? 0
                             : recomputation.kind == Kind::layers ? recomputation.layers
                                                                  : layers;
  return {.by_layer = std::vector<bool>(static_cast<std::size_t>(std::min(first, layers)), true),
          .keeps_products = recomputation.kind == Kind::selective};
}

std::string describe(const RecomputedLayers& recomputed, std::int64_t layers) {
  const auto count = std::ranges::count(recomputed.by_layer, true);
  if (count == 0) return "";
  return fmt::format("activations of {} of {} layers are computed again{}", count, layers,
                     recomputed.keeps_products ? ", but products and attention" : "");
}

}  // namespace kernbench::benches::train
