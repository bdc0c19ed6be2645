#include "benches/cli/run_outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>

#include "benches/bench/energy_cells.h"
#include "benches/bench/head_and_foot.h"
#include "benches/cli/report_page.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/variants/row_plot.h"
#include "benches/variants/variant_sweep.h"
#include "runtime/profiler/kineto.h"
#include "runtime/profiler/profile.h"
#include "runtime/simulation/simulation.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::cli {

namespace {

// Writes where the time of the longest system went, and what would make it shorter.
std::string explain(Bench& bench, const Work& work, runtime::ProfiledTime time) {
  const runtime::Simulation* const longest = bench.run().contexts.longest();
  if (longest == nullptr) return "";
  const runtime::Profile profile = runtime::make_profile(*longest, time);
  const std::string text = runtime::explain(profile);
  if (work.ran.variants.empty() || profile.path.edges.empty()) return text;
  return text + variants::to_text(variants::what_helps(bench, work.ran, profile.path, time));
}

// Names the system that --explain, --summary, --report and --kineto show if there are several;
// empty if there is one.
std::string shown_point(const Work& work, const BenchRun& run) {
  if (run.contexts.longest() == nullptr) return "";
  const std::size_t count = run.contexts.statistics().size();
  if (!work.records_first) {
    if (const std::string point = variants::explained_point(run); !point.empty()) return point;
  }
  if (count < 2) return "";
  return fmt::format("the {} of {} systems that were simulated",
                     work.records_first ? "first, as it is," : "longest", count);
}

std::string shown_note(const RunArguments& arguments, const std::string& point) {
  if (point.empty() || !needs_profile(arguments)) return "";
  return note_line(arguments.explain || arguments.summary ? "explained" : "shown", point);
}

std::string title_of(const variants::PlotRequest& request) {
  return fmt::format("{} over {}{}", request.y, request.x,
                     request.by.empty() ? "" : ", by " + request.by);
}

void add_plot(Bench& bench, const std::string& text) {
  const variants::PlotRequest request = variants::parse_plot(text);
  variants::RowPlot plot =
      variants::make_plot(bench.run().rows(), request, title_of(request), "plot.csv");
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

using Wanted = bool (*)(const RunArguments&);

bool is_always(const RunArguments&) {
  return true;
}

const runtime::Simulation* longest(const EndedRun& ended) {
  return ended.run.contexts.longest();
}

void print_rows(const EndedRun& ended, Report& report) {
  if (ended.run.has_printed) return;
  ended.run.console.print("#\n" + variants::to_fitting_table(report.rows));
}

void write_artifacts(const EndedRun& ended, Report& report) {
  ended.files.write_artifacts(ended.run, report);
}

void print_systems(const EndedRun& ended, Report&) {
  ended.run.console.print(systems_table(ended.run));
}

void print_energy(const EndedRun& ended, Report& report) {
  if (!report.engine.energy.is_counted()) return;
  const std::vector<Row> rows = energy_rows(report.rows);
  const std::string by_row = rows.size() > 1 ? variants::to_fitting_table(rows) + "#\n" : "";
  ended.run.console.print("#\n" + by_row + runtime::energy_table(report.engine.energy));
}

void write_page(const EndedRun& ended, Report& report) {
  if (longest(ended) == nullptr) return;
  ended.files.write_page(make_page(ended.arguments, report, ended.work, *longest(ended),
                                   shown_point(ended.work, ended.run)),
                         report);
}

void write_kineto(const EndedRun& ended, Report& report) {
  if (longest(ended) == nullptr) return;
  ended.files.write_kineto(runtime::kineto_traces(*longest(ended)), report);
}

void print_foot(const EndedRun& ended, Report& report) {
  ended.run.console.print(foot(report) + unused_rules_note(ended.run) +
                          shown_note(ended.arguments, shown_point(ended.work, ended.run)));
}

void print_summary(const EndedRun& ended, Report&) {
  if (longest(ended) == nullptr) return;
  const auto profile = runtime::make_profile(*longest(ended), profiled_time(ended.arguments));
  ended.run.console.print("#\n" + runtime::summary(profile));
}

void print_explanation(const EndedRun& ended, Report&) {
  if (!ended.explanation.empty()) ended.run.console.print("#\n" + ended.explanation);
}

void write_report(const EndedRun& ended, Report& report) {
  for (const std::string& name : ended.files.write_report(report)) {
    ended.run.console.print(note_line("wrote", name));
  }
}

void check_plot(const RunArguments& arguments) {
  variants::parse_plot(arguments.plot);
  if (!arguments.output_folder.empty()) return;
  throw UsageError("KB-U018", "--plot: give --out DIR, the folder of its files");
}

void check_nothing(const RunArguments&) {}

struct RunOutput {
  Wanted is_wanted;
  bool needs_profile;
  void (*check)(const RunArguments&);       // before the simulation
  void (*write)(const EndedRun&, Report&);  // after it
};

// In the order in which a user reads them.
constexpr std::array kRunOutputs = {
    RunOutput{is_always, false, check_nothing, print_rows},
    RunOutput{is_always, false, check_nothing, write_artifacts},
    RunOutput{[](const RunArguments& given) { return !given.plot.empty(); }, false, check_plot,
              [](const EndedRun&, Report&) {}},  // its figure is one of the artifacts
    RunOutput{[](const RunArguments& given) { return given.energy; }, false, check_nothing,
              print_energy},
    RunOutput{[](const RunArguments& given) { return given.verbose; }, false, check_nothing,
              print_systems},
    RunOutput{[](const RunArguments& given) { return !given.report.empty(); }, true, check_nothing,
              write_page},
    RunOutput{[](const RunArguments& given) { return !given.kineto.empty(); }, true, check_nothing,
              write_kineto},
    RunOutput{is_always, false, check_nothing, print_foot},
    RunOutput{[](const RunArguments& given) { return given.summary; }, true, check_nothing,
              print_summary},
    RunOutput{[](const RunArguments& given) { return given.explain; }, true, check_nothing,
              print_explanation},
    RunOutput{is_always, false, check_nothing, write_report},
};

}  // namespace

void check_outputs(const RunArguments& arguments) {
  for (const RunOutput& output : kRunOutputs) {
    if (output.is_wanted(arguments)) output.check(arguments);
  }
}

bool needs_profile(const RunArguments& arguments) {
  return std::ranges::any_of(kRunOutputs, [&](const RunOutput& output) {
    return output.needs_profile && output.is_wanted(arguments);
  });
}

runtime::ProfiledTime profiled_time(const RunArguments& arguments) {
  return arguments.whole_run ? runtime::ProfiledTime::whole : runtime::ProfiledTime::timed;
}

std::string add_to(Bench& bench, const RunArguments& arguments, const Work& work, bool leads) {
  if (!arguments.plot.empty()) add_plot(bench, arguments.plot);
  return arguments.explain && leads ? explain(bench, work, profiled_time(arguments)) : "";
}

Report write_outputs(const EndedRun& ended, Report report) {
  for (const RunOutput& output : kRunOutputs) {
    if (output.is_wanted(ended.arguments)) output.write(ended, report);
  }
  return report;
}

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

void keep_finished_rows(Report report, Outputs& outputs) {
  report.ok = false;
  outputs.write_report(report);
  Console(STDERR_FILENO)
      .print(fmt::format("kernbench: error: [KB-S001] interrupted after {} rows, while the host "
                         "computed\n",
                         report.rows.size()));
}

}  // namespace kernbench::benches::cli
