#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "benches/bench/bench_run.h"
#include "benches/bench/head_and_foot.h"
#include "benches/bench/interrupt.h"
#include "benches/bench/report.h"
#include "benches/cli/commands.h"
#include "benches/cli/outputs.h"
#include "benches/cli/perform.h"
#include "benches/cli/report_page.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/variants/row_plot.h"
#include "benches/variants/variant_sweep.h"
#include "runtime/profiler/kineto.h"
#include "runtime/profiler/profile.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::cli {

namespace {

constexpr int kMaxJobs = 1024;
constexpr std::size_t kMostVariants = 10'000;
constexpr int kMostTieOrders = 1000;

// Returns nullopt unless all of `text` is a number.
template <class Integer>
std::optional<Integer> parse_whole(const std::string& text) {
  const char* const end = text.data() + text.size();
  Integer value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::uint64_t parse_seed(std::string_view option, const std::string& text) {
  if (const auto seed = parse_whole<std::uint64_t>(text)) return *seed;
  throw UsageError("KB-U012", "{} {}: expected an integer from 0 to 2^64 - 1", option,
                   in_quotes(text));
}

std::optional<std::uint64_t> parse_shuffle_ties(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(parse_seed("--shuffle-ties", text));
}

// A bench that has no orders of its own runs in none besides anyway.
std::optional<int> parse_tie_orders(const std::string& text, const BenchInfo& info) {
  if (text.empty()) return std::nullopt;
  const int least = info.tie_orders > 0 ? 0 : 1;
  const auto orders = parse_whole<int>(text);
  if (orders && *orders >= least && *orders <= kMostTieOrders) return *orders;
  throw UsageError("KB-U012", "--tie-orders {}: expected an integer from {} to {}", in_quotes(text),
                   least, kMostTieOrders);
}

// The number of hardware threads that this process may use.
int hardware_thread_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int parse_jobs(const std::string& text) {
  if (text.empty()) return std::min(hardware_thread_count(), kMaxJobs);
  const auto jobs = parse_whole<int>(text);
  if (jobs && *jobs >= 1 && *jobs <= kMaxJobs) return *jobs;
  throw UsageError("KB-U012", "--jobs {}: expected an integer from 1 to {}", in_quotes(text),
                   kMaxJobs);
}

std::optional<runtime::TraceLevel> parse_trace(const RunArguments& arguments) {
  constexpr std::array<std::string_view, 3> kLevels = {"ranks", "kernels", "units"};  // in order
  const bool is_given = !arguments.trace_level.empty();
  const auto* const level =
      std::ranges::find(kLevels, is_given ? std::string_view(arguments.trace_level) : "kernels");
  if (level == kLevels.end()) {
    throw UsageError("KB-U012", "--trace-level {}: expected ranks, kernels or units",
                     in_quotes(arguments.trace_level));
  }
  if (arguments.trace.empty() && is_given) {
    throw UsageError("KB-U012", "--trace-level {}: has no effect without --trace FILE; add it",
                     arguments.trace_level);
  }
  if (arguments.trace.empty()) return std::nullopt;
  return static_cast<runtime::TraceLevel>(level - kLevels.begin());
}

bool is_profiled(const RunArguments& arguments) {
  return arguments.explain || arguments.summary || !arguments.report.empty() ||
         !arguments.kineto.empty();
}

using CheckRows = std::function<void(std::span<const Row>)>;

// A grid checks the rows of its first point, whatever tables they are of.
CheckRows check_of_first_row(const BenchInfo& info, const RunArguments& arguments,
                             const Work& work) {
  const bool is_one_run = work.command == "run" && work.axes.empty();
  if (arguments.plot.empty() || !info.has_like_rows || !is_one_run) return {};
  return [plot = variants::parse_plot(arguments.plot)](std::span<const Row> rows) {
    variants::check_columns(rows, plot);
  };
}

BenchRequest make_request(const BenchInfo& info, const RunArguments& arguments, const Work& work,
                          ProcessTeam* team) {
  return {.topology = work.first.topology,
          .ccl = work.first.ccl,
          .ccl_is_given = work.first.names_ccl,
          .ccl_file_is_given = work.first.names_ccl_file,
          .seed = parse_seed("--seed", arguments.seed),
          .shuffle_ties = parse_shuffle_ties(arguments.shuffle_ties),
          .tie_orders = parse_tie_orders(arguments.tie_orders, info),
          .recording = {.trace = parse_trace(arguments), .profile = is_profiled(arguments)},
          .output_folder = arguments.output_folder,
          .jobs = parse_jobs(arguments.jobs),
          .inputs = work.inputs,
          .team = team,
          .shows_progress = !arguments.quiet,
          .known = {},
          .check_first = check_of_first_row(info, arguments, work)};
}

void run_grid(Bench& bench, const BenchInfo& info, std::span<const variants::Variant> variants,
              const std::string& plot) {
  const auto check = [&](std::span<const Row> rows) {
    if (!plot.empty()) variants::check_columns(rows, variants::parse_plot(plot));
  };
  const std::vector<Row> rows = variants::run_variants(bench, "grid", info, variants,
                                                       {.check_first = check, .goes_on = true});
  bench.print("#\n" + variants::to_narrow_table(rows));
}

// Writes where the time of the longest system went, and what would make it shorter.
std::string explain(Bench& bench, const Work& work) {
  const runtime::Simulation* const longest = bench.run().contexts.longest();
  if (longest == nullptr) return "";
  const runtime::Profile profile = runtime::make_profile(*longest);
  const std::string text = runtime::explain(profile);
  if (work.ran.variants.empty() || profile.path.edges.empty()) return text;
  return text + variants::to_text(variants::what_helps(bench, work.ran, profile.path));
}

// Names the system that --explain, --summary, --report and --kineto show if there are several;
// empty if there is one.
std::string shown_point(const Work& work, const BenchRun& run) {
  if (run.contexts.longest() == nullptr) return "";
  const std::size_t count = run.contexts.statistics().size();
  if (work.gains == nullptr) {
    if (const std::string point = variants::explained_point(run); !point.empty()) return point;
  }
  if (count < 2) return "";
  return fmt::format("the {} of {} systems that were simulated",
                     work.gains == nullptr ? "longest" : "first, as it is,", count);
}

std::string shown_note(const RunArguments& arguments, const std::string& point) {
  if (point.empty() || !is_profiled(arguments)) return "";
  return note_line(arguments.explain || arguments.summary ? "explained" : "shown", point);
}

void check_plot(const RunArguments& arguments) {
  variants::parse_plot(arguments.plot);
  if (!arguments.output_folder.empty()) return;
  throw UsageError("KB-U018", "--plot: give --out DIR, the folder of its files");
}

void add_plot(Bench& bench, const std::string& text) {
  variants::RowPlot plot =
      variants::make_plot(bench.run().rows(), variants::parse_plot(text), text, "plot.csv");
  plot.chart.subtitle = bench.topology().name;
  bench.add_artifact(plot.chart.csv, to_csv(plot.points));
  figure::FigureArtifacts(bench).add("plot", plot.chart);
}

// Writes a table of what each system has done.
std::string systems_table(const BenchRun& run) {
  std::vector<Row> rows;
  for (const EngineStatistics& system : run.contexts.statistics()) {
    std::string algorithms;
    for (const AlgorithmRun& ran : system.algorithms) {
      algorithms +=
          fmt::format("{}{}:{}", algorithms.empty() ? "" : " ", ran.collective, ran.algorithm);
    }
    rows.push_back(Row()
                       .set("system", rows.size() + 1)
                       .set("simulated_us", to_ns(system.simulated) / 1e3)
                       .set("events", system.events)
                       .set("busiest", system.busiest.unit)
                       .set("share", fmt::format("{:.3f}", system.busiest.share()))
                       .set("algorithms", algorithms));
  }
  return "#\n" + to_table(rows);
}

bool has_done_something(const BenchRun& run) {
  return run.is_interrupted() || run.statistics().events > 0 || !run.rows().empty() ||
         !run.artifacts().empty();
}

// Writes what is known of a failed run: its trace, its foot, and the rows that it has.
// Errors of writing are ignored, since the run's own error matters more.
void keep_the_finished(Report report, const BenchRun& run, Outputs& outputs) noexcept {
  try {
    report.ok = false;
    outputs.write_artifacts(run, report);
    const bool has_rows = report.engine.events > 0 && !report.rows.empty();
    if (has_rows && !run.has_printed)
      run.console.print("#\n" + variants::to_fitting_table(report.rows));
    if (report.engine.events > 0 || !report.artifacts.empty()) run.console.print(foot(report));
    if (has_rows || run.is_interrupted()) outputs.write_report(report);
  } catch (const std::exception&) {
  }
}

// Writes the rows of an interrupted run that is still going on.
void keep_finished_rows(Report report, Outputs& outputs) {
  report.ok = false;
  outputs.write_report(report);
  Console(STDERR_FILENO)
      .print(fmt::format("kernbench: error: [KB-S001] interrupted after {} rows, while the host "
                         "computed\n",
                         report.rows.size()));
}

}  // namespace

int run(const RunArguments& arguments, ProcessTeam* team) {
  return run(registered_benches().find(arguments.bench), arguments, team);
}

int run(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team) {
  if (!arguments.plot.empty()) check_plot(arguments);
  const variants::VariantMaker maker(variant_request(info, arguments));
  if (maker.count() > kMostVariants && !arguments.yes) {
    throw UsageError("KB-U016", "the grid has {} points; --yes runs more than {}",
                     with_commas(maker.count()), with_commas(kMostVariants));
  }
  const std::vector<variants::Variant> variants = maker.all();
  return perform(info, arguments, team,
                 {.first = variants.front(),
                  .inputs = maker.inputs(),
                  .axes = maker.axes(),
                  .run =
                      [&](Bench& bench) {
                        variants.size() == 1 ? info.run(bench)
                                             : run_grid(bench, info, variants, arguments.plot);
                      },
                  .ran = {variant_request(info, arguments), variants}});
}

variants::VariantRequest variant_request(const BenchInfo& info, const RunArguments& arguments) {
  return {.bench = &info,
          .topologies = arguments.topology,
          .ccl = arguments.ccl,
          .assignments = arguments.settings};
}

int perform(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team,
            const Work& work) {
  BenchRequest request = make_request(info, arguments, work, team);
  const bool leads = team == nullptr || team->leads();
  // Opens the outputs first, so that one that cannot be written is found before the simulation.
  Outputs outputs(leads ? arguments : RunArguments{});
  Console console = leads && !arguments.quiet
                        ? Console(outputs.uses_stdout() ? STDERR_FILENO : STDOUT_FILENO)
                        : Console::silent();
  BenchRun run(std::move(request), work.first.settings, console);
  run.configure(info);

  // Printed unless the run ends before it has done anything.
  console.begin_with(head(info, run, {work.first.fixed, work.axes}));
  const auto start = std::chrono::steady_clock::now();
  const auto report_now = [&] {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    return make_report(info, run, work.first.fixed, wall.count());
  };
  InterruptWatch watch([&](ExitCode reason) { run.interrupt(reason); },  // also while it writes
                       [&](ExitCode) {
                         if (leads) keep_finished_rows(report_now(), outputs);
                       });
  std::string explanation;
  try {
    Bench bench(run);
    work.run(bench);
    if (!arguments.plot.empty()) add_plot(bench, arguments.plot);
    if (arguments.explain && leads) explanation = explain(bench, work);
    watch.run_ended();
    run.check_contract(info.name);
  } catch (...) {
    watch.run_ended();
    if (leads && has_done_something(run)) keep_the_finished(report_now(), run, outputs);
    throw;
  }
  if (!leads) return 0;

  Report report = report_now();
  if (!run.has_printed) console.print("#\n" + variants::to_fitting_table(report.rows));
  outputs.write_artifacts(run, report);
  if (arguments.verbose) console.print(systems_table(run));
  const runtime::Simulation* const longest = run.contexts.longest();
  if (longest != nullptr) {
    outputs.write_page(make_page(arguments, report, work, *longest, shown_point(work, run)),
                       report);
    if (!arguments.kineto.empty()) outputs.write_kineto(runtime::kineto_traces(*longest), report);
  }
  console.print(foot(report) + unused_rules_note(run) +
                shown_note(arguments, shown_point(work, run)));
  if (longest != nullptr && arguments.summary) {
    console.print("#\n" + runtime::summary(runtime::make_profile(*longest)));
  }
  if (!explanation.empty()) console.print("#\n" + explanation);
  for (const std::string& name : outputs.write_report(report)) {
    console.print(note_line("wrote", name));
  }
  run.remove_journals();
  console.finish();
  if (!report.ok) {
    Console(STDERR_FILENO).print(run.describe_failed());
    return static_cast<int>(ExitCode::worker_failed);
  }
  if (const auto unused = run.unused_algorithm()) throw ConfigError("KB-Y046", *unused);
  return static_cast<int>(ExitCode::ok);
}

}  // namespace kernbench::benches::cli
