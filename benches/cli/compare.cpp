// `kernbench compare`.

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "benches/bench/bench_run.h"
#include "benches/cli/commands.h"
#include "benches/cli/perform.h"
#include "benches/variants/comparison.h"
#include "benches/variants/variant_sweep.h"
#include "benches/variants/what_if.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::cli {

namespace {

int compare_files(const CompareArguments& arguments,
                  const std::optional<variants::Condition>& condition) {
  const variants::SavedReport before = variants::read_report(arguments.reports.front());
  const variants::SavedReport after = variants::read_report(arguments.reports.back());
  if (before.bench != after.bench) {
    throw ConfigError("KB-I004",
                      "{} is of the bench {} and {} of {}: compare two runs of the same bench",
                      in_quotes(before.file), before.bench, in_quotes(after.file), after.bench);
  }
  variants::check_numbers(before, after);
  variants::Comparison comparison = variants::compare_rows(before.rows, after.rows);
  if (comparison.rows.empty()) {
    throw UsageError("KB-U017",
                     "compare: no row of {} is one of {}, though both are of the bench {}: run it "
                     "with the same values again",
                     before.file, after.file, before.bench);
  }
  if (before.topology != after.topology) {
    comparison.differences.push_back(
        fmt::format("topology: {} -> {}", before.topology, after.topology));
  }
  Console console(STDOUT_FILENO);
  console.print(fmt::format("# kernbench {}: {} beside {}\n", version(), after.file, before.file));
  console.print(to_table(comparison, variants::time_column(before.rows, arguments.metric)));
  console.finish();
  if (condition) variants::check_condition(comparison, *condition);
  return 0;
}

int compare_reruns(const CompareArguments& arguments, ProcessTeam* team,
                   const std::optional<variants::Condition>& condition) {
  const BenchInfo& info = registered_benches().find(arguments.run.bench);
  const variants::VariantMaker maker(variant_request(info, arguments.run));
  if (maker.count() != 2) {
    throw UsageError(
        "KB-U017",
        "compare wants two runs, and --set and --topology give {}: give two values to one of them",
        maker.count());
  }
  const std::vector<variants::Variant> variants = maker.all();
  std::optional<variants::Comparison> comparison;
  const int exit_code = perform(
      info, arguments.run, team,
      {.first = variants.front(),
       .inputs = maker.inputs(),
       .axes = maker.axes(),
       .run =
           [&](Bench& bench) {
             const auto check = [&](std::span<const Row> rows) {
               variants::time_column(rows, arguments.metric);
             };
             const std::vector<Row> rows =
                 variants::run_variants(bench, "compare", info, variants, {.check_first = check});
             const auto [before, after] = variants::split_rows(rows, variants.front());
             comparison = variants::compare_rows(before, after);
             bench.print(to_table(*comparison, variants::time_column(rows, arguments.metric)));
           },
       .ran = {},
       .command = "compare"});
  if (condition && comparison) variants::check_condition(*comparison, *condition);
  return exit_code;
}

}  // namespace

int compare(const CompareArguments& arguments, ProcessTeam* team) {
  std::optional<variants::Condition> condition;
  if (!arguments.fail_if.empty()) condition.emplace(arguments.fail_if);
  const bool has_reports = !arguments.reports.empty();
  if (has_reports != arguments.run.bench.empty() ||
      (has_reports && arguments.reports.size() != 2)) {
    throw UsageError("KB-U001",
                     "compare: give two reports, or a --bench to run with two values of a key");
  }
  if (!has_reports) return compare_reruns(arguments, team, condition);
  return team == nullptr || team->leads() ? compare_files(arguments, condition) : 0;
}

}  // namespace kernbench::benches::cli
