#include "benches/train/train.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/peak_flops.h"
#include "benches/bench/table.h"
#include "benches/train/configuration.h"
#include "benches/train/memory_estimate.h"
#include "benches/train/model_settings.h"
#include "benches/train/training.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::train {

namespace {

constexpr std::array kOptimizers = {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd};
constexpr double kGiB = 1 << 30;

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

// Models by name are trained in bf16, as they are published.
DType read_dtype(const Settings& settings, const ConfiguredModel& model) {
  if (settings.is_set("dtype")) return settings.choice("dtype", kDTypes);
  return model.configuration == Configuration::none ? DType::f32 : DType::bf16;
}

TrainingOptions read_options(const Settings& settings, const Topology& topology,
                             const ConfiguredModel& model) {
  return {.model = model.kind,
          .size = model.size,
          .optimizer = settings.choice("optimizer", kOptimizers),
          .lr = read_number(settings, "lr"),
          .clip = read_number(settings, "clip"),
          .compile = settings.flag("compile"),
          .dtype = read_dtype(settings, model),
          .on = read_pes(settings, topology, model.size.tokens()),
          .recomputation = read_recomputation(settings)};
}

// Throws UsageError KB-U012 if not one layer fits.
std::int64_t choose_layers(const Topology& topology, const ConfiguredModel& model,
                           TrainingOptions options) {
  const std::int64_t layers = count_layers_that_fit(topology, options, model.size.layers);
  if (layers > 0) return layers;
  options.size.layers = 1;
  const int pes = options.on.count();
  throw UsageError(
      "KB-U012",
      "train: not one layer of {} fits: batch={} of {} tokens each in {} takes some {:.3g} "
      "GiB of the {:.3g} GiB of HBM of cubes={} pes={}; give more of these, or a "
      "smaller batch=, seq= or vocab=",
      name_of(model.configuration), options.size.batch, options.size.seq, name_of(options.dtype),
      estimate_bytes_of_pe(options) * pes / kGiB, hbm_of_pe(topology, options.on) * pes / kGiB,
      options.on.cubes, options.on.pes);
}

constexpr UnnamedModel kUnnamed{.least_vocab = 128};  // the text has bytes below it

constexpr std::int64_t kSteps = 50;
constexpr std::int64_t kStepsOfTimes = 2;  // the first, and one like all others

std::int64_t read_steps(const Settings& settings, std::int64_t otherwise) {
  return settings.is_set("steps") ? settings.integer("steps", 1, kMost) : otherwise;
}

// True if a run has values.  Those of a configuration that cost the host too much are left out, or
// refused if they are asked for.  Other models have sizes that their user has chosen, and knows.
bool choose_values(const Settings& settings, const ConfiguredModel& model,
                   const TrainingOptions& options) {
  const bool is_asked_for = settings.is_set("values") && settings.flag("values");
  if (settings.is_set("values") && !is_asked_for) return false;
  if (model.configuration == Configuration::none) return true;
  const std::int64_t steps = read_steps(settings, kSteps);
  const HostCost cost = estimate_host_cost(options, steps);
  if (!cost.is_high()) return true;
  if (!is_asked_for) return false;
  throw UsageError("KB-U012",
                   "train: the values of {} steps of {:.3g} parameters and {} tokens take the host "
                   "some {:.2g} hours and {:.2g} GiB; leave out values=true for the times alone, "
                   "or give fewer layers=, steps= or tokens",
                   steps, count_parameters(options.model, options.size).all(),
                   options.size.tokens(), cost.hours, cost.bytes / kGiB);
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

// "llama, 2 of the 32 layers of llama3-8b, 1505808384 parameters of bf16"
std::string describe_model(const ConfiguredModel& model, const TrainingOptions& options,
                           std::int64_t parameters) {
  const std::string layers = describe_layers(model);
  return fmt::format("{}, {}{}{} parameters of {}", name_of(options.model), layers,
                     layers.empty() ? "" : ", ", parameters, name_of(options.dtype));
}

// The kinds that a training step has of its own; the others together are "other".
constexpr std::array kPeakKinds = {MemoryKind::parameter, MemoryKind::optimizer_state,
                                   MemoryKind::gradient, MemoryKind::activation};

constexpr std::array kPeakColumns = {
    TableColumn{"HBM peak", "(B)", 12, "hbm_peak_bytes"},
    TableColumn{"parameter", "(B)", 12, "peak_parameter_bytes"},
    TableColumn{"optimizer state", "(B)", 15, "peak_optimizer_state_bytes"},
    TableColumn{"gradient", "(B)", 12, "peak_gradient_bytes"},
    TableColumn{"activation", "(B)", 12, "peak_activation_bytes"},
    TableColumn{"other", "(B)", 12, "peak_other_bytes"},
};

void set_peak(Row& row, const MemoryByKind& peak) {
  Bytes other = peak.sum();
  for (const MemoryKind kind : kPeakKinds) {
    row.set(fmt::format("peak_{}_bytes", name_of(kind)), peak[kind]);
    other -= peak[kind];
  }
  row.set("peak_other_bytes", other);
}

void run_steps(Bench& bench, RuntimeContext& torch, const ConfiguredModel& model,
               const TrainingOptions& options, std::int64_t steps) {
  Training training(torch, options);
  std::int64_t parameters = 0;
  for (const Tensor& parameter : training.model().parameters()) parameters += parameter.numel();
  bench.note("model", describe_model(model, options, parameters));
  bench.note("device", describe(options.on, torch.topology()));
  const std::string recomputed = describe(training.recomputed(), options.size.layers);
  if (!recomputed.empty()) bench.note("checkpoint", recomputed);
  bench.print("#\n" + table_head(kColumns));
  const bool has_values = torch.options().data;
  const double flops = count_flops(training.model(), options.size);
  const double peak = peak_flops(torch.topology(), pes_of_sip(torch.topology())).value_or(0);
  double first = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const TrainingStep step = training.step();
    if (i == 0) first = step.loss;
    const double seconds = to_ns(step.time) * 1e-9;
    Row row = Row()
                  .set("step", i)
                  .set("loss", known(has_values, step.loss))
                  .set("grad_norm", known(has_values, step.norm))
                  .set("time_ns", to_ns(step.time))
                  .set("tokens_per_s", static_cast<double>(options.size.tokens()) / seconds)
                  .set("compute", to_ns(step.computing) / to_ns(step.time))
                  .set("mfu", known(peak > 0, flops / seconds / peak))
                  .set("hbm_peak_bytes", torch.ahbm.max_memory_allocated());
    bench.print(table_line(kColumns, row, bench.run().console));
    set_peak(row, torch.ahbm.memory_stats().peak);
    const bool is_last_of_many = has_values && i + 1 == steps && steps >= 20;
    const std::string fault = find_fault(i, step.loss, is_last_of_many, first);
    bench.add_row(row, fault.empty(), fault);
    if (i + 1 == steps) {
      bench.print("#\n" + table_head(kPeakColumns));
      bench.print(table_line(kPeakColumns, row, bench.run().console));
    }
  }
}

// Throws CollectiveError KB-A033 for a budget into which the layers do not fit, before the run: a
// model of one layer tells what each keeps.
void check_budget(const Bench& bench, const TrainingOptions& options) {
  if (options.recomputation.kind != Recomputation::Kind::budget) return;
  TrainingOptions of_one = options;
  of_one.size.layers = 1;
  of_one.recomputation = {};
  RuntimeContext torch(bench.topology(), {.ccl = bench.ccl(), .data = false});
  torch.distributed.init_process_group("ahbm", {.world_size = 1});
  nn::utils::LayerActivations of_layer;
  run_ranks(torch, 1, [&](int) { of_layer = Training(torch, of_one).measure_layer(); });
  nn::utils::choose_kept_layers(options.size.layers, of_layer, options.recomputation.budget);
}

// A rank, since only ranks may sum what PEs share.
void run_train(Bench& bench) {
  const Settings& settings = bench.settings();
  ConfiguredModel model = read_model(settings, kUnnamed);
  TrainingOptions options = read_options(settings, bench.topology(), model);
  check_size("train", options.model, options.size);
  if (!model.has_given_layers) {
    model.size.layers = options.size.layers = choose_layers(bench.topology(), model, options);
  }
  check_layers(options.recomputation, options.size.layers);
  check_budget(bench, options);
  const bool has_values = choose_values(settings, model, options);
  const std::int64_t steps = read_steps(settings, has_values ? kSteps : kStepsOfTimes);
  const auto torch = bench.make_context(bench.topology(), {.ccl = bench.ccl(), .data = has_values});
  torch->distributed.init_process_group("ahbm", {.world_size = 1});
  torch->multiprocessing.spawn([&](int) { run_steps(bench, *torch, model, options, steps); }, {},
                               1);
}

}  // namespace

BenchInfo train_bench() {
  std::vector<SettingInfo> settings =
      configured_settings(kUnnamed, "as many of the config's as fit into HBM, or 2");
  settings.insert(
      settings.end(),
      {{"batch", "", "samples of a step; else 1 of a config's, or 2", SettingType::integer},
       {"steps", "",
        fmt::format("of training; else {}, or {} of times alone", kSteps, kStepsOfTimes),
        SettingType::integer},
       {"optimizer", "adamw", "adamw, adam or sgd", SettingType::name},
       {"lr", "0.01", "learning rate", SettingType::number},
       {"clip", "1", "largest norm of the gradients", SettingType::number},
       {"compile", "false", "true: fuse elementwise operators, as torch.compile(model)",
        SettingType::flag},
       {"dtype", "", "f16, bf16 or f32; else bf16 of a config, or f32", SettingType::name},
       {"cubes", "", "that share a step's tokens and the weights; else as many as these fill",
        SettingType::integer},
       {"pes", "", "of each of these cubes, likewise", SettingType::integer},
       recomputation_setting(),
       {"values", "",
        "true or false: times alone; else true, but false of a config that takes the host an hour",
        SettingType::flag}});
  return {"train",
          "a language model learns the letters of a text: loss, tokens per second, memory",
          std::move(settings),
          run_train,
          nullptr,
          BenchRanks::one};
}

}  // namespace kernbench::benches::train
