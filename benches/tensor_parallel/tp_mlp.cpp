// tp-mlp: a training step of Megatron's MLP over tensor parallel ranks, every element checked.

#include <fmt/format.h>

#include "benches/tensor_parallel/parallel_mlp.h"
#include "benches/tensor_parallel/step_sweep.h"
#include "benches/tensor_parallel/tp_benches.h"

namespace kernbench::benches::tensor_parallel {

namespace {

constexpr std::int64_t kMostFeatures = std::int64_t{1} << 20;

RankModel build(RuntimeContext& torch, const StepInput& input, std::int64_t ffn) {
  const auto mlp = std::make_shared<ParallelMlp>(
      torch, ParallelMlpOptions{.hidden = input.hidden,
                                .ffn = ffn,
                                .activation = Activation::relu,
                                .sequence_parallel = input.sequence_parallel,
                                .overlap = input.overlap,
                                .dtype = input.dtype,
                                .pes = input.pes});
  return {[mlp](const Tensor& x) { return mlp->forward(x); }, mlp->parameters()};
}

void run_tp_mlp(Bench& bench) {
  const Settings& settings = bench.settings();
  const std::int64_t hidden = settings.integer("hidden", 1, kMostFeatures);
  const MlpSize size{
      .tokens = settings.integer("tokens", 1, kMostFeatures),
      .hidden = hidden,
      .ffn = settings.is_set("ffn") ? settings.integer("ffn", 1, kMostFeatures) : 4 * hidden};
  const std::uint64_t seed = bench.seed();
  run_step_sweep(
      bench,
      {.model = fmt::format("relu MLP {} - {} - {} with biases, {} tokens", hidden, size.ffn,
                            hidden, size.tokens),
       .tokens = size.tokens,
       .hidden = hidden,
       .cut = size.ffn,
       .cut_name = "ffn",
       .flops_form = "forward and backward, 12 tokens hidden ffn FLOP",
       .forward_flops =
           4.0 * static_cast<double>(size.tokens * hidden) * static_cast<double>(size.ffn),
       .check_form = "small integers: y and all gradients are those of one rank on one PE exactly",
       .build = [&size](RuntimeContext& torch,
                        const StepInput& input) { return build(torch, input, size.ffn); },
       .draw = [&size, seed] { return integer_mlp(size, seed); },
       .expect = expect_equal});
}

}  // namespace

BenchInfo tp_mlp_bench() {
  return {
      "tp-mlp",
      "a training step of a tensor parallel MLP, every element checked",
      with_step_settings({{"tokens", "256", "rows of x", SettingType::integer},
                          {"hidden", "512", "columns of x and y", SettingType::integer},
                          {"ffn", "", "features in between; else 4 hidden", SettingType::integer}}),
      run_tp_mlp,
      choose_algorithm,
      BenchRanks::own};
}

}  // namespace kernbench::benches::tensor_parallel
