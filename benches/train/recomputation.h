// The key `checkpoint` of bench train says which layers' activations a step computes again.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/settings.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::train {

struct Recomputation {
  enum class Kind : std::uint8_t {
    none,
    all,        // of every layer
    selective,  // of every layer, but the results of products and attention are kept
    layers,     // of the first `layers`
    budget      // of as many as it takes for the layers to keep `budget` bytes at most
  };

  Kind kind = Kind::none;
  std::int64_t layers = 0;
  Bytes budget = 0;
};

SettingInfo recomputation_setting();
std::string name_of(const Recomputation& recomputation);  // "all", "3", "budget:1024"

// Reads the key `checkpoint`: none, all, selective, a number of layers, or budget:BYTES, such as
// budget:64MiB.  Throws UsageError KB-U012 for anything else.
Recomputation read_recomputation(const Settings& settings);
Recomputation parse_recomputation(std::string_view text);  // a value of the key
// Throws UsageError KB-U012 for a number of layers that the model does not have.
void check_layers(const Recomputation& recomputation, std::int64_t layers);

// The layers of a model whose activations are computed again.
struct RecomputedLayers {
  std::vector<bool> by_layer;   // beyond its end: none
  bool keeps_products = false;  // and results of attention

  bool contains(std::size_t layer) const { return layer < by_layer.size() && by_layer[layer]; }
};

// REQUIRES: there is no budget
RecomputedLayers find_recomputed(const Recomputation& recomputation, std::int64_t layers);

// "the activations of 3 of 4 layers are computed again"; empty: of none.
std::string describe(const RecomputedLayers& recomputed, std::int64_t layers);

}  // namespace kernbench::benches::train
