#include "benches/calibration/calibration_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "benches/bench/bench_run.h"
#include "benches/bench/head_and_foot.h"
#include "benches/bench/row_cells.h"
#include "benches/calibration/fit.h"
#include "benches/calibration/fit_tables.h"
#include "benches/calibration/fitted_files.h"
#include "benches/collectives/calibrate.h"
#include "benches/figure/figure_artifacts.h"

namespace kernbench::benches::calibration {

namespace {

// The chart of rows that have the columns given_us and simulated_us.
figure::Chart make_chart(const Calibration& calibration, std::string csv, std::string note) {
  std::vector<std::string> collectives;
  std::vector<std::string> machines;
  for (const CalibratedRow& row : calibration.rows) {
    const std::string name(name_of(row.published.collective));
    if (std::ranges::find(collectives, name) == collectives.end()) collectives.push_back(name);
  }
  for (const Machine& machine : calibration.machines) machines.push_back(machine.topology);
  return {.form = "fit",
          .csv = std::move(csv),
          .title = "Simulated over published time",
          .subtitle = fmt::format("{}", fmt::join(machines, ", ")),
          .note = std::move(note),
          .values = {{"collective", collectives}}};
}

Texts list_texts(const Fit& fit) {
  Texts texts;
  for (const ParameterFit& one : fit.parameters) texts.push_back(one.text);
  return texts;
}

// Simulates the rows with the fitted values, or as they are given if `fit` has no rows yet.
std::vector<Row> simulate_rows(Bench& bench, const Calibration& calibration,
                               const std::vector<Parameter>& parameters, const Fit& fit) {
  const Texts texts = list_texts(fit);
  std::vector<variants::Variant> variants;
  for (const Machine& machine : calibration.machines) {
    variants.push_back(make_variant(machine, parameters, texts));
  }
  const double tolerance = collectives::read_tolerance(bench.settings());
  Sweep sweep(bench, "calibrate");
  for (std::size_t i = 0; i < calibration.rows.size(); ++i) {
    const CalibratedRow& row = calibration.rows[i];
    const Machine& machine = calibration.machines[row.machine];
    sweep.add(fmt::format("{} at '{}'", row.name_in(machine.file), fmt::join(texts, ", ")),
              [&, i](PointContext& point) {
                const variants::Variant& variant = variants[row.machine];
                const collectives::Measurement measured = collectives::simulate(
                    point, variant.topology, variant.ccl, machine.input, row.published);
                RowFit times = fit.rows.empty() ? RowFit{.before = measured.time} : fit.rows[i];
                if (times.after) times.after = measured.time;
                point.check(std::abs(collectives::error_percent(measured.time, row.published)) <=
                            tolerance);
                return make_row(calibration, row, times, measured.algorithm);
              });
  }
  return sweep.run();
}

void add_parameters(Bench& bench, const std::vector<Parameter>& parameters, const Fit& fit) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Row row = make_row(parameters[i], fit.parameters[i]);
    bench.run().add_rows({&row, 1}, true, "");
    for (const std::string& fault : fit.parameters[i].faults) {
      bench.run().add_rows({}, false, fmt::format("--fit {}: {}", parameters[i].name(), fault));
    }
  }
  if (fit.has_converged) return;
  bench.run().add_rows({}, false,
                       "--fit: it did not converge: begin nearer with --set KEY=VALUE, or give "
                       "narrower ranges or fewer parameters");
}

void add_files(Bench& bench, const Calibration& calibration,
               const std::vector<Parameter>& parameters, const Fit& fit,
               const std::vector<Row>& rows) {
  bench.add_artifact("fit.csv", to_csv(rows));
  std::vector<Row> fitted;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    fitted.push_back(make_row(parameters[i], fit.parameters[i]));
  }
  bench.add_artifact("parameters.csv", to_csv(fitted));
  for (const FittedFile& file : fitted_files(calibration, parameters, fit)) {
    bench.add_artifact(file.name, file.text);
  }
  figure::FigureArtifacts(bench).add(
      "fit", make_chart(calibration, "fit.csv",
                        "Crosses: as given. Rows of all files, which were fitted together."));
}

void add_figure(Bench& bench, const Calibration& calibration, std::vector<Row> rows) {
  for (Row& row : rows) row.set("given_us", number_in(row, "simulated_us"));
  bench.add_artifact("calibrate.csv", to_csv(rows));
  figure::FigureArtifacts(bench).add("calibrate", make_chart(calibration, "calibrate.csv", ""));
}

}  // namespace

void run_calibration(Bench& bench, const Calibration& calibration,
                     const std::vector<Parameter>& parameters) {
  Fit fitted;
  if (!parameters.empty()) fitted = fit(bench, calibration, parameters);
  const std::vector<Row> rows = simulate_rows(bench, calibration, parameters, fitted);
  if (parameters.empty()) {
    for (const Row& row : rows) {
      const double us = number_in(row, "simulated_us");
      fitted.rows.push_back({.before = Time{std::llround(us * 1e6)}});
    }
  }
  bench.print(rows_table(calibration, rows, bench.run().console));
  bench.print(summary_table(calibration, fitted));
  if (parameters.empty()) return add_figure(bench, calibration, rows);
  bench.print(parameter_table(parameters, fitted));
  bench.print("#\n");
  bench.note("fit", fmt::format("{} rows simulated{}", with_commas(fitted.simulated),
                                fitted.has_converged ? "" : ", not converged"));
  add_parameters(bench, parameters, fitted);
  add_files(bench, calibration, parameters, fitted, rows);
}

}  // namespace kernbench::benches::calibration
