#include "benches/train/memory_estimate.h"

#include <algorithm>
#include <vector>

#include "sim_engine/components/routing.h"

namespace kernbench::benches::train {

namespace {

constexpr double kUsableShare = 0.95;
constexpr double kMaster = 4;   // bytes of an element in f32
constexpr double kMoments = 8;  // likewise, of AdamW's and Adam's two

// The matrices and vectors of a block.
ParameterCount count_of_layer(ModelKind model, const LanguageModelSize& size) {
  const auto hidden = static_cast<double>(size.hidden);
  const auto kv = static_cast<double>(size.kv_features());
  const auto ffn = static_cast<double>(size.ffn_features());
  const double attention = 2 * hidden * (hidden + kv);  // q and proj, k and v
  if (model == ModelKind::llama) return {attention + 3 * hidden * ffn, 2 * hidden};
  return {attention + 2 * hidden * ffn, 7 * hidden + 2 * kv + ffn};
}

// The table of tokens and the head, gpt's table of positions, and the last norm.
ParameterCount count_of_rest(ModelKind model, const LanguageModelSize& size) {
  const auto hidden = static_cast<double>(size.hidden);
  const double tables = 2 * static_cast<double>(size.vocab) * hidden;
  if (model == ModelKind::llama) return {tables, hidden};
  return {tables + static_cast<double>(size.seq) * hidden, 2 * hidden};
}

// The elements that a token has at a time.  A block keeps what its norms, products, rotations and
// activations were given, measured with small models; scores of attention are not among them, as
// its kernels compute them anew.  The rest are what the last norm and the head were given, and
// logits and their gradient or, later, gradients within an MLP.
double count_kept_elements(ModelKind model, const LanguageModelSize& size) {
  const bool is_llama = model == ModelKind::llama;
  const auto hidden = static_cast<double>(size.hidden);
  const auto kv = static_cast<double>(size.kv_features());
  const auto ffn = static_cast<double>(size.ffn_features());
  const double of_layer = is_llama ? 8 * hidden + 3 * kv + 4 * ffn : 8 * hidden + 2 * kv + 2 * ffn;
  return static_cast<double>(size.layers) * of_layer + 4 * hidden +
         2 * std::max(static_cast<double>(size.vocab), ffn);
}

}  // namespace

ParameterCount count_parameters(ModelKind model, const LanguageModelSize& size) {
  const ParameterCount layer = count_of_layer(model, size);
  const ParameterCount rest = count_of_rest(model, size);
  const auto layers = static_cast<double>(size.layers);
  return {layers * layer.matrices + rest.matrices, layers * layer.vectors + rest.vectors};
}

// Backward begins with all activations and the head's gradient, and ends with all gradients and no
// activations; then masters get gradients of their own.
double estimate_bytes_of_pe(const TrainingOptions& options) {
  const auto pes = static_cast<double>(options.on.count());
  const auto of_element = static_cast<double>(size_of(options.dtype));
  const bool has_masters = options.dtype != DType::f32;
  const double state = of_element + (has_masters ? kMaster : 0) +
                       (options.optimizer == OptimizerKind::sgd ? 0 : kMoments);
  const double gradients = of_element + (has_masters ? kMaster : 0);
  const ParameterCount count = count_parameters(options.model, options.size);
  const double parameters = count.matrices / pes + count.vectors;
  const double of_head =
      static_cast<double>(options.size.vocab) * static_cast<double>(options.size.hidden) / pes;
  const double kept = static_cast<double>(options.size.tokens()) / pes *
                      count_kept_elements(options.model, options.size);
  return state * parameters + std::max(of_element * (kept + of_head), gradients * parameters);
}

bool HostCost::is_high() const {
  constexpr double kMostBytes = 8.0 * (1 << 30);
  return hours > 1 || bytes > kMostBytes;
}

HostCost estimate_host_cost(const TrainingOptions& options, std::int64_t steps) {
  constexpr double kFlopsOfHour = 8e9 * 3600;
  const double parameters = count_parameters(options.model, options.size).all();
  const double flops = 6 * parameters * static_cast<double>(options.size.tokens() * steps);
  return {.hours = flops / kFlopsOfHour,
          .bytes = estimate_bytes_of_pe(options) * options.on.count()};
}

double hbm_of_pe(const Topology& topology, const UsedPes& on) {
  std::vector<int> sharers(static_cast<std::size_t>(sim::Routing::hbm_slice_count(topology)));
  for (int pe = 0; pe < std::min(on.pes, topology.pe_count()); ++pe) {
    ++sharers[static_cast<std::size_t>(sim::Routing::hbm_slice_of(topology, pe))];
  }
  return static_cast<double>(topology.cube.hbm.capacity) / static_cast<double>(sharers.size()) /
         std::ranges::max(sharers);
}

std::int64_t count_layers_that_fit(const Topology& topology, TrainingOptions options,
                                   std::int64_t most) {
  const double usable = kUsableShare * hbm_of_pe(topology, options.on);
  for (options.size.layers = most; options.size.layers > 0; --options.size.layers) {
    if (estimate_bytes_of_pe(options) <= usable) break;
  }
  return options.size.layers;
}

}  // namespace kernbench::benches::train
