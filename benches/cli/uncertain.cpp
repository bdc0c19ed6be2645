#include "benches/cli/uncertain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "benches/bench/bench_run.h"
#include "benches/bench/cell.h"
#include "benches/bench/head_and_foot.h"
#include "benches/cli/perform.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/variants/ranges.h"
#include "benches/variants/ranking.h"
#include "benches/variants/row_columns.h"
#include "benches/variants/uncertain_runs.h"
#include "benches/variants/variant_sweep.h"
#include "benches/variants/what_if.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::cli {

namespace {

constexpr std::string_view kOption = "--uncertain";
constexpr std::size_t kUsualRuns = 50;
constexpr std::size_t kLeastRuns = 3;
constexpr std::size_t kMostRuns = 10'000;

std::size_t parse_runs(const std::string& text) {
  if (text.empty()) return kUsualRuns;
  std::size_t runs = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, runs);
  const bool is_fine = error == std::errc() && stop == end;
  if (is_fine && runs >= kLeastRuns && runs <= kMostRuns) return runs;
  throw UsageError("KB-U012", "--runs {}: expected an integer from {} to {}", in_quotes(text),
                   kLeastRuns, kMostRuns);
}

// The question that is asked of the runs.
struct Question {
  const BenchInfo& info;
  const RunArguments& arguments;
  const variants::VariantMaker& maker;
  const std::vector<variants::Range>& ranges;
  std::size_t run_count = 0;
};

void check_question(const Question& question) {
  const std::size_t points = question.maker.count();
  if (question.ranges.size() > question.run_count) {
    throw UsageError("KB-U012", "--runs {}: {} has {} ranges; give at least as many runs",
                     question.run_count, kOption, question.ranges.size());
  }
  if (points > kMostRuns / question.run_count && !question.arguments.yes) {
    throw UsageError("KB-U016",
                     "{} runs of each of {} combinations are more than {}; --yes runs them",
                     with_commas(question.run_count), with_commas(points), with_commas(kMostRuns));
  }
  for (const variants::Range& range : question.ranges) {
    if (!question.maker.is_set(*range.key)) continue;
    throw UsageError("KB-U012", "{}: {} has a value by --set; give one of the two", kOption,
                     range.key->name);
  }
  variants::check_ends(question.maker, question.ranges);
}

std::vector<std::string> describe_axes(const Question& question) {
  std::vector<std::string> lines = question.maker.axes();
  for (const variants::Range& range : question.ranges) {
    lines.push_back(fmt::format("{}: {} to {}, in {} runs", range.key->name, range.show(range.low),
                                range.show(range.high), question.run_count));
  }
  return lines;
}

bool has_column(std::span<const Row> rows, const std::string& column) {
  return std::ranges::any_of(rows, [&](const Row& row) { return row.find(column) != nullptr; });
}

void check_rank_by(std::span<const Row> rows, const std::string& by) {
  if (by.empty() || has_column(rows, by)) return;
  std::vector<std::string> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) {
      const bool is_known = std::ranges::find(columns, column) != columns.end();
      if (!is_known && std::holds_alternative<std::string>(cell)) columns.push_back(column);
    }
  }
  throw UsageError("KB-U017", "--rank-by {}: the rows have no such column; of texts there are: {}",
                   in_quotes(by), fmt::join(columns, ", "));
}

// The column whose texts are ranked; empty: none.
std::string column_of_ranks(const Question& question, std::span<const variants::Variant> variants,
                            const std::string& metric) {
  const std::string& wanted = question.arguments.rank_by;
  if (!wanted.empty() && !variants::is_time_column(metric)) {
    throw UsageError("KB-U017", "--rank-by {}: {} is no time, so the least need not be the best",
                     in_quotes(wanted), metric);
  }
  if (!wanted.empty() || !variants::is_time_column(metric)) return wanted;
  if (question.maker.axes().size() != 1) return "";
  // The smallest size of a problem is always the fastest, so sizes are not ranked.
  const variants::VariedCell& axis = variants.front().varied.front();
  const bool is_number = std::isdigit(static_cast<unsigned char>(axis.value.front())) != 0;
  const bool is_of_bench = axis.key != "topology" &&
                           question.maker.keys().find(axis.key).owner == variants::KeyOwner::bench;
  return is_number && is_of_bench ? "" : axis.key;
}

// Checks that the rows of the first run have the columns that are asked for.
void check_rows(std::span<const Row> rows, const RunArguments& arguments,
                std::span<const variants::Range> ranges) {
  variants::time_column(rows, arguments.metric);
  check_rank_by(rows, arguments.rank_by);
  if (arguments.plot.empty()) return;
  std::vector<Row> all(rows.begin(), rows.end());  // the run as it is may lack a range's key
  for (const variants::Range& range : ranges) {
    if (!has_column(all, range.key->name)) all.push_back(Row().set(range.key->name, 0));
  }
  variants::check_columns(all, variants::parse_plot(arguments.plot));
}

void add_rows(Bench& bench, std::string_view csv, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  bench.add_artifact(csv, to_csv(rows));
  bench.run().add_rows(rows, true, "");  // without energy, which those of the runs have
}

void add_figure(Bench& bench, std::span<const variants::Band> bands, const std::string& metric) {
  std::optional<variants::RowPlot> plot = variants::plot_bands(bands, metric, "band_curves.csv");
  if (!plot) return;
  plot->chart.subtitle = bench.topology().name;
  bench.add_artifact(plot->chart.csv, to_csv(plot->points));
  figure::FigureArtifacts(bench).add("bands", plot->chart);
}

std::string describe_failed(std::span<const Row> rows, std::size_t all) {
  const std::size_t failed = variants::count_failed(rows);
  if (failed == 0) return "";
  return fmt::format("# {} of {} runs failed; their rows have an `error`, and they do not count\n",
                     failed, all);
}

void answer(Bench& bench, const Question& question) {
  const variants::Samples samples =
      variants::draw_samples(question.ranges, question.run_count, bench.seed());
  const std::vector<variants::Variant> variants =
      variants::uncertain_variants(question.maker, samples);
  if (bench.run().request.recording.is_on()) {
    bench.note("recorded", fmt::format("the run as it is alone, of {}", variants.size()));
  }
  const RunArguments& arguments = question.arguments;
  const auto check = [&](std::span<const Row> rows) {
    check_rows(rows, arguments, question.ranges);
  };
  const std::vector<Row> rows =
      variants::run_variants(bench, "uncertain", question.info, variants,
                             {.check_first = check,
                              .goes_on = true,
                              .adds_simulated = arguments.metric == variants::kSimulated});
  const std::string metric = variants::time_column(rows, arguments.metric);
  const std::string by = column_of_ranks(question, variants, metric);
  const std::vector<variants::Band> bands = variants::make_bands(rows, samples, metric);
  bench.print(to_table(bands, samples, metric) + describe_failed(rows, variants.size()));
  add_rows(bench, "bands.csv", variants::to_rows(bands, samples, metric));
  if (!by.empty()) {
    const std::vector<variants::Contest> contests = variants::rank(bands, samples, by);
    bench.print(to_text(contests, samples, by));
    add_rows(bench, "ranking.csv", variants::to_rows(contests, samples, by));
  }
  add_figure(bench, bands, metric);
}

}  // namespace

void check_uncertain(const RunArguments& arguments) {
  if (!arguments.uncertain.empty()) return;
  for (const auto& [option, value] :
       {std::pair("--runs", arguments.runs), std::pair("--metric", arguments.metric),
        std::pair("--rank-by", arguments.rank_by)}) {
    if (value.empty()) continue;
    throw UsageError("KB-U012", "{} {}: has no effect without {} KEY=LOW..HIGH; add it", option,
                     in_quotes(value), kOption);
  }
}

int run_uncertain(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team) {
  const variants::VariantMaker maker(variant_request(info, arguments));
  const std::vector<variants::Range> ranges =
      variants::parse_ranges(kOption, arguments.uncertain, maker.keys());
  const Question question{info, arguments, maker, ranges, parse_runs(arguments.runs)};
  check_question(question);
  return perform(info, arguments, team,
                 {.first = maker.first(),
                  .inputs = maker.inputs(),
                  .axes = describe_axes(question),
                  .run = [&](Bench& bench) { answer(bench, question); },
                  .ran = {},
                  .records_first = true});
}

}  // namespace kernbench::benches::cli
