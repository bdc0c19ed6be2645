#include "benches/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/table.h"
#include "benches/ddp/mesh.h"
#include "benches/plan/candidates.h"
#include "benches/plan/planner.h"
#include "benches/plan/reasons.h"
#include "benches/plan/step_figures.h"
#include "benches/train/model_settings.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches::plan {

namespace {

constexpr train::UnnamedModel kUnnamed{
    .size = {.layers = 8, .hidden = 256, .heads = 4, .vocab = 1000, .seq = 64, .batch = 0},
    .most_seq = train::kMost};

constexpr std::array kColumns = {
    TableColumn{"", "", 3, "place"},
    TableColumn{"scheme", "", -7, "scheme"},
    TableColumn{"tp", "", 3, "tp"},
    TableColumn{"dp", "", 3, "dp"},
    TableColumn{"pp", "", 3, "pp"},
    TableColumn{"schedule", "", -11, "schedule"},
    TableColumn{"cap", "(MiB)", 5, "bucket_cap_mb"},
    TableColumn{"micro", "batch", 5, "microbatches"},
    TableColumn{"check", "point", -9, "checkpoint"},
    TableColumn{"step", "(us)", 9, "step_ns", 1e-3, 1},
    TableColumn{"MFU", "(%)", 5, "mfu", 100, 1},
    TableColumn{"peak", "(MiB)", 7, "peak_bytes", 1.0 / (1 << 20), 1},
    TableColumn{"bubble", "(%)", 6, "bubble", 100, 1},
    TableColumn{"exposed", "dp (us)", 8, "dp_exposed_ns", 1e-3, 1},
    TableColumn{"exposed", "tp (us)", 8, "tp_exposed_ns", 1e-3, 1},
    TableColumn{"step by", "", 0, "by"},
};

// Bytes of the HBM of a SIP.
Bytes hbm_of(const Topology& topology) {
  return topology.cube.hbm.capacity * topology.cube_count();
}

Question read_question(const Settings& settings, const Topology& topology) {
  Question question{.model = train::read_model(settings, kUnnamed),
                    .dtype = settings.choice("dtype", kDTypes),
                    .world = static_cast<int>(settings.integer("world", 2, train::kMostRanks)),
                    .memory = hbm_of(topology),
                    .full = static_cast<int>(settings.integer("full", 0, train::kMostRanks)),
                    .is_exhaustive = settings.flag("exhaustive")};
  if (!settings.is_set("batch")) question.model.size.batch = question.world;
  if (settings.is_set("memory")) question.memory = settings.bytes("memory", 1, hbm_of(topology));
  train::check_size("plan", question.model.kind, question.model.size);
  return question;
}

std::optional<double> given(double figure) {
  return figure > 0 ? std::optional(figure) : std::nullopt;
}

std::optional<std::string> given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// The runs that a plan's step is from.
std::string_view describe_source(const Plan& plan) {
  if (plan.is_measured) return "run";
  if (!plan.needless.empty()) return "none";
  return plan.input.pp > 1 ? "stages" : "layers";
}

Row result_row(const Plan& plan, std::size_t place, const Question& question,
               const Topology& topology) {
  const train::LanguageModelSize& size = question.model.size;
  const bool has_figures = plan.figures.step_ns > 0;
  Row row = plan_row("plan", plan.input);
  row.set("place", plan.fits() ? std::optional(place) : std::nullopt);
  if (has_figures) {
    const Time step{static_cast<std::int64_t>(plan.figures.step_ns * 1e3)};
    set_figures(row, plan.figures);
    row.set("tokens_per_s", static_cast<double>(size.tokens()) / (plan.figures.step_ns * 1e-9))
        .set("mfu", ddp::compute_mfu(plan.figures.flops, step, topology))
        .set("bubble", plan.figures.bubble_ns / plan.figures.step_ns)
        .set("bound_ns", plan.is_measured ? given(plan.figures.bound_ns) : std::nullopt)
        .set("by_layers_ns", given(plan.by_layers.step_ns))
        .set("by_layers_bubble", plan.by_layers.step_ns > 0
                                     ? given(plan.by_layers.bubble_ns / plan.by_layers.step_ns)
                                     : std::nullopt)
        .set("by_layers_peak_bytes", given(plan.by_layers.peak_bytes));
  }
  return row.set("by", describe_source(plan))
      .set("refused", given(plan.refused))
      .set("needless", given(plan.needless));
}

// Says why a plan among the best is by its layers though it should have been run.
std::string describe_too_long(std::span<const Plan> best, const Question& question) {
  for (const Plan& plan : best | std::views::take(question.full)) {
    if (!plan.fits() || plan.is_measured || plan.figures.events <= kMostEvents) continue;
    return fmt::format("with all layers {} would be {:.0f} million events, and {:.0f} are run",
                       describe(plan.input), plan.figures.events * 1e-6, kMostEvents * 1e-6);
  }
  return "";
}

void print_sentence(Bench& bench, const std::string& text) {
  if (!text.empty()) bench.print(wrapped("# " + text, "#   ") + '\n');
}

void print_result(Bench& bench, const std::vector<Plan>& plans, const Question& question) {
  bench.print("#\n" + table_head(kColumns));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Row row = result_row(plans[i], i + 1, question, bench.topology());
    if (plans[i].fits() && i < kShown) {
      bench.print(table_line(kColumns, row, bench.run().console));
    }
    bench.add_row(std::move(row));
  }
  if (plans.size() > 1 && plans[1].fits()) {
    print_sentence(bench, compare_first_two(plans[0], plans[1]));
  }
  print_sentence(bench, describe_deviation(plans));
  print_sentence(bench, describe_too_long(plans, question));
  print_sentence(bench, describe_refused(plans));
  print_sentence(bench, describe_needless(plans));
}

void print_head(Bench& bench, const Question& question, const Candidates& candidates) {
  const train::LanguageModelSize& size = question.model.size;
  const std::string named = train::describe_layers(question.model);
  const std::string layers =
      named.empty() ? fmt::format("{}: {} layers, hidden {}", name_of(question.model.kind),
                                  size.layers, size.hidden)
                    : named;
  bench.note("model",
             fmt::format("{}, {} samples of {} tokens in a step, {}, {}", layers, size.batch,
                         size.seq, name_of(question.dtype), describe_sip(bench.topology())));
  bench.note(
      "plans",
      fmt::format("{}; tensor parallel ranks are neighbours, and sequence parallel; then data "
                  "parallel ones; then a pipeline's",
                  candidates.plans.size()));
  if (!candidates.impossible.empty()) {
    bench.note("none with", fmt::format("{}", fmt::join(candidates.impossible, "; ")));
  }
  bench.note("memory",
             fmt::format("{} of each SIP", show_bytes(static_cast<double>(question.memory))));
}

void run_plan(Bench& bench) {
  check_rank_is_sip(bench);
  check_ranks_begin_together(bench);
  const Question question = read_question(bench.settings(), bench.topology());
  Candidates candidates = list_candidates(question, bench.settings(), bench.topology());
  print_head(bench, question, candidates);
  Planner planner(bench, question, std::move(candidates.plans));
  print_result(bench, planner.run(), question);
}

// The keys of a step of bench ddp, whose batch is that of all ranks here.
std::vector<SettingInfo> list_settings() {
  std::vector<SettingInfo> settings = train::configured_settings(kUnnamed, "the config's, or 8");
  std::ranges::copy(train::step_settings(""), std::back_inserter(settings));
  const auto batch = std::ranges::find(settings, "batch", &SettingInfo::key);
  batch->help = "samples of the whole step, the same in each plan; else one for each rank";
  settings.insert(
      settings.end(),
      {{"world", "8", "ranks", SettingType::integer},
       {"memory", "", "of each SIP that a plan may take; else all of its HBM", SettingType::size},
       {"scheme", "ddp,zero1,fsdp2", "of data parallel ranks, a list; fsdp2 with tp=1",
        SettingType::names},
       {"bucket_cap_mb", "5,25,100", "bytes at which a bucket is closed, in MiB, a list",
        SettingType::names},
       {"pp", "1,2,4,8",
        "ranks of a pipeline, a list; with ddp, and unless given, of at most 8 ranks of a stage",
        SettingType::integers},
       {"schedule", "1f1b,interleaved,zb_h1", "of pipelines, a list of bench pipeline's",
        SettingType::names},
       {"chunks", "2", "stages on a rank, of schedules of several", SettingType::integer},
       {"microbatches", "1,2,4,8",
        "into which a rank cuts its samples, a list, of those that divide them: the fewest that "
        "fit, "
        "and of pipelines all",
        SettingType::integers},
       {"checkpoint", "none,selective,all",
        "computed again in backward, a list: the first that fits", SettingType::names},
       {"exhaustive", "false", "time also the plans that others make needless", SettingType::flag},
       {"full", "5", "of the best plans are run with all layers", SettingType::integer}});
  return settings;
}

}  // namespace

BenchInfo plan_bench() {
  return {"plan",
          "ways to train a model on so many ranks: the fastest ones that fit into memory",
          list_settings(),
          run_plan,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::plan
