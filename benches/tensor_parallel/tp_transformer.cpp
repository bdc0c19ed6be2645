// tp-transformer: a training step of blocks of GPT over tensor parallel ranks, every element
// checked.

#include <fmt/format.h>

#include "benches/tensor_parallel/gpt_block.h"
#include "benches/tensor_parallel/step_sweep.h"
#include "benches/tensor_parallel/tp_benches.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::tensor_parallel {

namespace {

constexpr std::int64_t kMostHidden = std::int64_t{1} << 16;
constexpr std::int64_t kMostLayers = 100;

GptSize read_size(const Settings& settings) {
  const GptSize size{.sequence = settings.integer("seq", 1, kMostHidden),
                     .hidden = settings.integer("hidden", 1, kMostHidden),
                     .heads = settings.integer("heads", 1, kMostHidden),
                     .layers = settings.integer("layers", 1, kMostLayers)};
  if (size.hidden % size.heads == 0) return size;
  throw UsageError("KB-U012", "--set heads: {} do not divide hidden, which is {}", size.heads,
                   size.hidden);
}

// Counts per layer the attention's projections with 4 hidden^2 weights in all, the MLP's two with 8
// hidden^2, and the attention's two products with [sequence, sequence], masked elements included.
double forward_flops(const GptSize& size) {
  const auto hidden = static_cast<double>(size.hidden);
  const auto sequence = static_cast<double>(size.sequence);
  return static_cast<double>(size.layers) * 2 * sequence *
         (12 * hidden * hidden + 2 * sequence * hidden);
}

void run_tp_transformer(Bench& bench) {
  const GptSize size = read_size(bench.settings());
  const std::uint64_t seed = bench.seed();
  run_step_sweep(
      bench,
      {.model = fmt::format("GPT: {} block{} of hidden {}, {} heads, sequence {}", size.layers,
                            size.layers == 1 ? "" : "s", size.hidden, size.heads, size.sequence),
       .tokens = size.sequence,
       .hidden = size.hidden,
       .cut = size.heads,
       .cut_name = "heads",
       .flops_form = "forward and backward, layers (72 seq hidden^2 + 12 seq^2 hidden) FLOP",
       .forward_flops = forward_flops(size),
       .check_form = fmt::format(
           "y and gradients are those of one rank on one PE in f32, within {} times its "
           "largest error in the type (ADR-0135)",
           kBoundOverSample),
       .build = [&size](RuntimeContext& torch,
                        const StepInput& input) { return build_gpt(torch, input, size); },
       .draw = [&size, seed] { return random_gpt(size, seed); },
       .expect =
           [&size](const SingleRank& single, const StepInput& input) {
             return expect_near(single, input, size.hidden / size.heads);
           }});
}

}  // namespace

BenchInfo tp_transformer_bench() {
  return {
      "tp-transformer",
      "a training step of tensor parallel blocks of GPT, every element checked",
      with_step_settings({{"seq", "128", "tokens", SettingType::integer},
                          {"hidden", "256", "features of a token", SettingType::integer},
                          {"heads", "8", "of the attention", SettingType::integer},
                          {"layers", "1", "blocks, one after the other", SettingType::integer}}),
      run_tp_transformer,
      choose_algorithm,
      BenchRanks::own};
}

}  // namespace kernbench::benches::tensor_parallel
