#include "benches/variants/variant_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/cell.h"
#include "benches/bench/cell_text.h"
#include "benches/bench/context_set.h"
#include "benches/variants/what_if.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches::variants {

namespace {

// A whole number as a number, so that programs can compute with it.
Cell to_cell(std::string_view text) {
  const std::string key = "value";
  const SettingInfo info{key, std::string(text), ""};
  try {
    return Settings({&info, 1}).integer(key, 0, std::numeric_limits<std::int64_t>::max());
  } catch (const UsageError&) {
    return std::string(text);
  }
}

// The row behind the cells of what varies.  Where the bench has a cell of the same name, its own
// tells the element of a list that the row is of; another text is what ran, as `algorithm` beside
// algorithm=auto.
Row with_cells(const std::vector<VariedCell>& varied, const Row& row) {
  Row result;
  for (const auto& [key, value, is_list] : varied) {
    if (!is_list || row.find(key) == nullptr) result.set_cell(key, to_cell(value));
  }
  for (const auto& [column, cell] : row.cells()) {
    const Cell* const own = result.find(column);
    if (own == nullptr) {
      result.set_cell(column, cell);
    } else if (to_text(*own) != to_text(cell)) {
      result.set_cell("ran_" + column, cell);
    }
  }
  return result;
}

std::vector<std::string> list_columns(std::span<const Row> rows) {
  std::vector<std::string> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) {
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    }
  }
  return columns;
}

// A number of at most six digits, for people.
Cell shortened(const Cell& cell) {
  const double* const number = std::get_if<double>(&cell);
  if (number == nullptr) return cell;
  const std::string text = fmt::format("{:.6g}", *number);
  return text.size() < to_text(cell).size() ? Cell(text) : cell;
}

// The text that all rows have in a column.
std::optional<std::string> common_text(std::span<const Row> rows, const std::string& column) {
  std::optional<std::string> common;
  for (const Row& row : rows) {
    const Cell* const cell = row.find(column);
    const std::string text = cell == nullptr ? "" : to_text(*cell);
    if (common && *common != text) return std::nullopt;
    common = text;
  }
  return common;
}

std::size_t compute_width(std::span<const Row> rows, const std::string& column) {
  std::size_t widest = column.size();
  for (const Row& row : rows) {
    if (const Cell* const cell = row.find(column)) {
      widest = std::max(widest, to_text(shortened(*cell)).size());
    }
  }
  return widest + 2;
}

// Energy is counted in all of them, since each has rows.
Recording recording_of(const ContextSet& contexts, const Variant& variant) {
  const Recording& whole = contexts.recording();
  return variant.is_recorded ? whole : Recording{.energy = whole.energy};
}

}  // namespace

std::vector<Row> run_variant(PointContext& point, const BenchInfo& info, const Variant& variant) {
  const BenchRequest& whole = point.bench().run().request;
  Console silent = Console::silent();
  BenchRun run({.topology = variant.topology,
                .ccl = variant.ccl,
                .ccl_is_given = variant.names_ccl,
                .seed = whole.seed,
                .tie_orders = 0,  // the sweep of variants runs each in those
                .folds = whole.folds,
                .recording = recording_of(point.contexts(), variant),
                .shows_progress = false,
                .known = whole.known},
               variant.settings, silent, point.contexts());
  run.configure(info);
  Bench bench(run);
  info.run(bench);
  if (const auto unused = run.unused_algorithm()) throw ConfigError("KB-Y046", *unused);
  point.check(run.ok());
  point.contexts().append(run.contexts);
  std::vector<Row> rows;
  for (const Row& row : run.rows()) rows.push_back(with_cells(variant.varied, row));
  return rows;
}

namespace {

// Errors that end the whole run: it was interrupted, or the host lacks something.
bool ends_run(const Error& error) {
  const ExitCode code = error.exit_code();
  return code == ExitCode::host_limit || code == ExitCode::output || error.code() == "KB-S001";
}

Row error_row(const Variant& variant, const Error& error) {
  const std::string text = error.what();
  return with_cells(variant.varied, Row()).set("error", text.substr(0, text.find('\n')));
}

double simulated_by_all(const PointContext& point) {
  Time simulated{0};
  for (const EngineStatistics& system : point.contexts().statistics()) {
    simulated += system.simulated;
  }
  return to_ns(simulated);
}

std::vector<Row> run_or_say_why_not(PointContext& point, const BenchInfo& info,
                                    const Variant& variant, const VariantSweep& options) {
  try {
    std::vector<Row> rows = run_variant(point, info, variant);
    if (options.adds_simulated && !rows.empty()) {
      rows.front().set(kSimulated, simulated_by_all(point));
    }
    return rows;
  } catch (const Error& error) {
    if (!options.goes_on || ends_run(error)) throw;
    point.check(false);
    return {error_row(variant, error)};
  }
}

// True if the row is the only one of a variant that has failed.
bool is_error_row(const Row& row) {
  const Cell* const error = row.find("error");
  return error != nullptr && std::holds_alternative<std::string>(*error);
}

}  // namespace

std::vector<Row> run_variants(Bench& bench, std::string sweep_name, const BenchInfo& info,
                              std::span<const Variant> variants, const VariantSweep& options) {
  Sweep sweep(bench, std::move(sweep_name));
  for (const Variant& variant : variants) {
    const bool is_first = &variant == variants.data();
    sweep.add(variant.name, [&, is_first](PointContext& point) {
      std::vector<Row> rows = run_or_say_why_not(point, info, variant, options);
      const bool has_failed = std::ranges::any_of(rows, is_error_row);
      if (is_first && !has_failed && options.check_first) options.check_first(rows);
      return rows;
    });
  }
  std::vector<Row> rows = sweep.run();
  if (options.goes_on && rows.size() == variants.size() &&
      std::ranges::all_of(rows, is_error_row)) {
    // Throws what the first one has thrown, with its exit code.
    ContextSet contexts(bench.run().contexts);
    PointContext again(bench, contexts);
    run_variant(again, info, variants.front());
  }
  return rows;
}

RowsOfTwo split_rows(std::span<const Row> rows, const Variant& first) {
  RowsOfTwo split;
  const VariedCell& varied = first.varied.front();
  const std::string own = to_text(to_cell(varied.value));
  for (const Row& row : rows) {
    const Cell* const cell = row.find(varied.key);
    const bool is_first = cell != nullptr && to_text(*cell) == own;
    (is_first ? split.first : split.second).push_back(row);
  }
  return split;
}

std::string to_narrow_table(std::span<const Row> rows) {
  if (rows.size() < 2) return to_table(rows);
  std::string common;
  std::vector<std::string> shown;
  std::vector<std::string> left_out;
  std::size_t width = 1;
  for (const std::string& column : list_columns(rows)) {
    if (const auto text = common_text(rows, column)) {
      if (!text->empty())
        common += fmt::format("{}{} {}", common.empty() ? "" : ", ", column, *text);
      continue;
    }
    const std::size_t wanted = compute_width(rows, column);
    const bool has_room = width + wanted <= kLineWidth;
    width += has_room ? wanted : 0;
    (has_room ? shown : left_out).push_back(column);
  }
  std::vector<Row> narrow;
  for (const Row& row : rows) {
    Row& line = narrow.emplace_back();
    for (const std::string& column : shown) {
      if (const Cell* const cell = row.find(column)) line.set_cell(column, shortened(*cell));
    }
  }
  std::string text;
  if (!common.empty()) text += wrapped("# in all rows: " + common, "# ") + '\n';
  text += to_table(narrow);
  if (left_out.empty()) return text;
  return text + fmt::format("# {} more columns are in --json and --csv\n", left_out.size());
}

std::string to_fitting_table(std::span<const Row> rows) {
  std::string table = to_table(rows);
  return table.find('\n') <= kLineWidth ? table : to_narrow_table(rows);
}

}  // namespace kernbench::benches::variants
