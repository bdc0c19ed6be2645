#include "benches/train/train.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "benches/bench/bench_run.h"
#include "benches/bench/table.h"
#include "benches/train/training.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::train {

namespace {

constexpr std::array kModels = {ModelKind::gpt, ModelKind::llama};
constexpr std::array kOptimizers = {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd};
constexpr std::int64_t kMost = std::int64_t{1} << 20;

constexpr std::array kColumns = {
    TableColumn{"step", "", 6, "step"},
    TableColumn{"loss", "", 11, "loss", 1, 6},
    TableColumn{"grad norm", "", 10, "grad_norm", 1, 4},
    TableColumn{"time", "(us)", 12, "time_ns", 1e-3, 3},
    TableColumn{"speed", "(tokens/s)", 11, "tokens_per_s", 1, 0},
    TableColumn{"compute", "(%)", 8, "compute", 100, 1},
    TableColumn{"MFU", "(%)", 6, "mfu", 100, 1},
    TableColumn{"HBM peak", "(B)", 12, "hbm_peak_bytes"},
};

double read_number(const Settings& settings, std::string_view key) {
  const std::string& text = settings.text(key);
  std::size_t end = 0;
  double number = -1;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end == text.size() && number > 0 && std::isfinite(number)) return number;
  throw UsageError("KB-U012", "--set {}={}: a positive number is wanted", key, text);
}

TrainingOptions read_options(const Settings& settings) {
  const auto integer = [&](std::string_view key) { return settings.integer(key, 1, kMost); };
  return {.model = settings.choice("model", kModels),
          .size = {.layers = integer("layers"),
                   .hidden = integer("hidden"),
                   .heads = integer("heads"),
                   .vocab = settings.integer("vocab", 128, kMost),
                   .seq = settings.integer("seq", 1, 8192),
                   .batch = integer("batch")},
          .optimizer = settings.choice("optimizer", kOptimizers),
          .lr = read_number(settings, "lr"),
          .clip = read_number(settings, "clip"),
          .compile = settings.flag("compile"),
          .dtype = settings.choice("dtype", kDTypes),
          .on = {.cubes = static_cast<int>(settings.integer("cubes", 1, 1024)),
                 .pes = static_cast<int>(settings.integer("pes", 1, 1024))}};
}

// Why a step is wrong; empty: it is not.  A model that learns nothing in its last step of several
// is.
std::string find_fault(std::int64_t step, double loss, bool is_last_of_many, double first) {
  if (std::isnan(loss)) return fmt::format("step {}: the loss is nan", step);
  if (!std::isfinite(loss)) return fmt::format("step {}: the loss is infinite", step);
  if (!is_last_of_many || loss < first) return "";
  return fmt::format("step {}: the loss, {:.6f}, is not below that of step 0, {:.6f}", step, loss,
                     first);
}

std::optional<double> known(bool is_known, double number) {
  return is_known ? std::optional(number) : std::nullopt;
}

// The products of a SIP's arrays in a second, in FLOP; 0 if they take no time.
double peak_of_sip(const Topology& topology) {
  const GemmSpec& array = topology.pe.gemm;
  if (array.clock.is_unlimited()) return 0;
  return 2.0 * static_cast<double>(array.clock.per_second) * array.rows * array.columns *
         topology.pe_count() * topology.cube_count();
}

void run_steps(Bench& bench, RuntimeContext& torch, const TrainingOptions& options,
               std::int64_t steps) {
  Training training(torch, options);
  std::int64_t parameters = 0;
  for (const Tensor& parameter : training.model().parameters()) parameters += parameter.numel();
  bench.note("model", fmt::format("{}, {} parameters of {}", name_of(options.model), parameters,
                                  name_of(options.dtype)));
  bench.note("device", describe(options.on, torch.topology()));
  bench.print("#\n" + table_head(kColumns));
  const bool has_values = torch.options().data;
  const double flops = count_flops(training.model(), options.size);
  const double peak = peak_of_sip(torch.topology());
  double first = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const TrainingStep step = training.step();
    if (i == 0) first = step.loss;
    const double seconds = to_ns(step.time) * 1e-9;
    const Row row = Row()
                        .set("step", i)
                        .set("loss", known(has_values, step.loss))
                        .set("grad_norm", known(has_values, step.norm))
                        .set("time_ns", to_ns(step.time))
                        .set("tokens_per_s", static_cast<double>(options.size.tokens()) / seconds)
                        .set("compute", to_ns(step.computing) / to_ns(step.time))
                        .set("mfu", known(peak > 0, flops / seconds / peak))
                        .set("hbm_peak_bytes", torch.ahbm.max_memory_allocated());
    bench.print(table_line(kColumns, row, bench.run().console));
    const bool is_last_of_many = has_values && i + 1 == steps && steps >= 20;
    const std::string fault = find_fault(i, step.loss, is_last_of_many, first);
    bench.add_row(row, fault.empty(), fault);
  }
}

// A rank, since only ranks may sum what PEs share.
void run_train(Bench& bench) {
  const TrainingOptions options = read_options(bench.settings());
  check_size("train", options.model, options.size);
  const std::int64_t steps = bench.settings().integer("steps", 1, kMost);
  const auto torch = bench.make_context(
      bench.topology(), {.ccl = bench.ccl(), .data = bench.settings().flag("values")});
  torch->distributed.init_process_group("ahbm", {.world_size = 1});
  torch->multiprocessing.spawn([&](int) { run_steps(bench, *torch, options, steps); }, {}, 1);
}

}  // namespace

BenchInfo train_bench() {
  return {"train",
          "a language model learns the letters of a text: loss, tokens per second, memory",
          {{"model", "gpt", "gpt or llama"},
           {"layers", "2", "blocks"},
           {"hidden", "32", "features"},
           {"heads", "2", "of attention"},
           {"vocab", "128", "tokens; the text has bytes below 128"},
           {"seq", "16", "tokens of a sample"},
           {"batch", "2", "samples of a step"},
           {"steps", "50", "of training"},
           {"optimizer", "adamw", "adamw, adam or sgd"},
           {"lr", "0.01", "learning rate"},
           {"clip", "1", "largest norm of the gradients"},
           {"compile", "false", "true: fuse elementwise operators, as torch.compile(model)"},
           {"dtype", "f32", "f16, bf16 or f32"},
           {"cubes", "1", "that share a step's samples and the weights"},
           {"pes", "1", "of each of these cubes"},
           {"values", "true", "false: times alone, of models too large to compute"}},
          run_train,
          nullptr,
          BenchRanks::one};
}

}  // namespace kernbench::benches::train
