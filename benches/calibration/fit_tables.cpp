#include "benches/calibration/fit_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "benches/bench/table.h"
#include "benches/collectives/calibrate.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches::calibration {

namespace {

using collectives::error_percent;
using collectives::microseconds;

constexpr std::array kAloneColumns = {TableColumn{"bytes", "B", 12, "bytes"},
                                      TableColumn{"published", "us", 11, "published_us", 1, 2},
                                      TableColumn{"simulated", "us", 11, "simulated_us", 1, 2},
                                      TableColumn{"error", "%", 8, "error_percent", 1, 1},
                                      TableColumn{"collective", "", -15, "collective"},
                                      TableColumn{"algorithm", "", 0, "algorithm"}};

constexpr std::array kFittedColumns = {
    TableColumn{"bytes", "B", 12, "bytes"},
    TableColumn{"published", "us", 11, "published_us", 1, 2},
    TableColumn{"as given", "us", 11, "given_us", 1, 2},
    TableColumn{"fitted", "us", 11, "simulated_us", 1, 2},
    TableColumn{"error", "%", 8, "error_percent", 1, 1},
    TableColumn{"left out", "%", 9, "left_out_error_percent", 1, 1},
    TableColumn{"collective", "", -15, "collective"},
    TableColumn{"algorithm", "", 0, "algorithm"}};

// Magnitudes of errors in percent.
struct Errors {
  std::vector<double> before;
  std::vector<double> after;
  std::vector<double> left_out;
};

double mean(const std::vector<double>& errors) {
  return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
}

double median(std::vector<double> errors) {
  std::ranges::sort(errors);
  const std::size_t half = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
}

void add_errors(Errors& errors, const CalibratedRow& row, const RowFit& fit) {
  const auto add = [&](std::vector<double>& to, const std::optional<Time>& time) {
    if (time) to.push_back(std::abs(error_percent(*time, row.published)));
  };
  add(errors.before, fit.before);
  add(errors.after, fit.after);
  add(errors.left_out, fit.left_out);
}

std::string error_cells(const std::vector<double>& errors) {
  if (errors.empty()) return fmt::format("  {:>7} {:>7} {:>7}", "-", "-", "-");
  return fmt::format("  {:7.1f} {:7.1f} {:7.1f}", mean(errors), median(errors),
                     std::ranges::max(errors));
}

std::string summary_line(const Errors& errors, std::string_view name) {
  const bool is_fitted = !errors.after.empty();
  return fmt::format(" {}{}{}  {}\n", error_cells(errors.before),
                     is_fitted ? error_cells(errors.after) : "",
                     is_fitted ? error_cells(errors.left_out) : "", name);
}

std::string summary_head(bool is_fitted) {
  constexpr std::string_view kThree = "     mean  median   worst";
  if (!is_fitted) return fmt::format("#\n#{}  error in %, without its sign\n", kThree);
  return fmt::format("#\n#  {:<24}{:<25}{}\n#{}{}{}  error in %, without its sign\n",
                     "        as given", "         fitted", "         left out", kThree,
                     kThree.substr(1), kThree.substr(1));
}

std::string machine_name(const Machine& machine) {
  return fmt::format("{}, {}", machine.topology, machine.file);
}

std::string interval_text(const Parameter& parameter, const ParameterFit& fit) {
  if (parameter.is_switch()) return "searched";
  if (!fit.low) return "at its bound";
  if (!std::isfinite(*fit.high)) return "unknown";
  return fmt::format("{} to {}", parameter.show(*fit.low), parameter.show(*fit.high));
}

}  // namespace

Row make_row(const Calibration& calibration, const CalibratedRow& row, const RowFit& fit,
             const std::optional<std::string>& algorithm) {
  const Machine& machine = calibration.machines[row.machine];
  const Time simulated = fit.after.value_or(fit.before);
  Row cells;
  cells.set("machine", machine.topology)
      .set("file", machine.file)
      .set("collective", name_of(row.published.collective))
      .set("bytes", row.published.size)
      .set("published_us", microseconds(row.published.time))
      .set("simulated_us", microseconds(simulated))
      .set("error_percent", error_percent(simulated, row.published));
  if (fit.after) {
    cells.set("given_us", microseconds(fit.before))
        .set("given_error_percent", error_percent(fit.before, row.published))
        .set("left_out_us",
             fit.left_out ? std::optional(microseconds(*fit.left_out)) : std::nullopt)
        .set("left_out_error_percent",
             fit.left_out ? std::optional(error_percent(*fit.left_out, row.published))
                          : std::nullopt);
  }
  return cells.set("algorithm", algorithm);
}

Row make_row(const Parameter& parameter, const ParameterFit& fit) {
  const variants::Range& range = parameter.range;
  return Row()
      .set("parameter", parameter.name())
      .set("value", fit.value)
      .set("low", fit.low)
      .set("high", fit.high)
      .set("least", range.low)
      .set("most", range.high)
      .set("unit", range.unit)
      .set("moved_rows", fit.moved_rows);
}

std::string rows_table(const Calibration& calibration, const std::vector<Row>& rows,
                       const Console& console) {
  const bool is_fitted = !rows.empty() && rows.front().find("given_us") != nullptr;
  const std::span<const TableColumn> columns =
      is_fitted ? std::span<const TableColumn>(kFittedColumns) : kAloneColumns;
  std::string text;
  if (is_fitted) {
    text +=
        "#\n# left out: what the row takes, simulated, with the values that one Gauss-Newton step "
        "gives the other rows\n#   ('-': they do not determine all values; switches stay)\n";
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t machine = calibration.rows[i].machine;
    if (i == 0 || machine != calibration.rows[i - 1].machine) {
      text += fmt::format("#\n# {}\n", machine_name(calibration.machines[machine]));
      text += table_head(columns);
    }
    text += table_line(columns, rows[i], console);
  }
  return text;
}

std::string summary_table(const Calibration& calibration, const Fit& fit) {
  std::string text = summary_head(fit.rows.front().after.has_value());
  Errors all;
  for (std::size_t machine = 0; machine < calibration.machines.size(); ++machine) {
    Errors whole;
    std::vector<std::pair<std::string_view, Errors>> collectives;
    for (std::size_t i = 0; i < fit.rows.size(); ++i) {
      const CalibratedRow& row = calibration.rows[i];
      if (row.machine != machine) continue;
      const std::string_view name = name_of(row.published.collective);
      if (collectives.empty() || collectives.back().first != name)
        collectives.push_back({name, {}});
      add_errors(collectives.back().second, row, fit.rows[i]);
      add_errors(whole, row, fit.rows[i]);
      add_errors(all, row, fit.rows[i]);
    }
    const std::string of_machine = machine_name(calibration.machines[machine]);
    for (const auto& [name, errors] : collectives) text += summary_line(errors, name);
    text += summary_line(whole, of_machine);
  }
  if (calibration.machines.size() > 1) text += summary_line(all, "all");
  return text;
}

std::string parameter_table(const std::vector<Parameter>& parameters, const Fit& fit) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& one = parameters[i];
    rows.push_back(Row()
                       .set("parameter", one.name())
                       .set("fitted", fit.parameters[i].text)
                       .set("95 %", interval_text(one, fit.parameters[i]))
                       .set("bounds", fmt::format("{} to {}", one.show(one.range.low),
                                                  one.show(one.range.high)))
                       .set("moves_rows", fit.parameters[i].moved_rows));
  }
  std::string text = "#\n" + to_table(rows);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const std::string& fault : fit.parameters[i].faults) {
      text += wrapped(fmt::format("# {}: {}", parameters[i].name(), fault), "#   ") + '\n';
    }
  }
  return text;
}

}  // namespace kernbench::benches::calibration
