// benches::cli::parse_command_line(): the program's arguments, one in a line.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "benches/cli/cli.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::command_line {

namespace {

using namespace benches::cli;  // the structs of every command

using Words = std::vector<std::string>;

// An option with a value; none if it is empty, as options may be left out.
void add(Words& words, std::string_view option, const std::string& value) {
  if (!value.empty()) words.push_back(fmt::format("{}={}", option, value));
}

Words words_for(const ListArguments& list) {
  Words words = {"list"};
  add(words, "--json", list.json);
  return words;
}

Words words_for(const KeysArguments& keys) {
  Words words = {"keys"};
  add(words, "--bench", keys.bench);
  add(words, "--topology", keys.topology);
  add(words, "--ccl", keys.ccl);
  add(words, "--json", keys.json);
  return words;
}

Words words_for(const DrawArguments& draw) {
  Words words = {"draw"};
  add(words, "--out", draw.out);
  words.emplace_back("--");
  words.push_back(draw.topology);
  return words;
}

Words words_for(const ErrorsArguments& errors) {
  Words words = {"errors"};
  add(words, "--markdown", errors.markdown);
  if (!errors.codes.empty()) words.emplace_back("--");
  words.insert(words.end(), errors.codes.begin(), errors.codes.end());
  return words;
}

// The options that every command takes that runs a bench.
void add_run_options(Words& words, const RunArguments& run) {
  add(words, "--topology", run.topology);
  add(words, "--ccl", run.ccl);
  for (const std::string& setting : run.settings) add(words, "--set", setting);
  add(words, "--out", run.output_folder);
  add(words, "--json", run.json);
  add(words, "--csv", run.csv);
  add(words, "--trace", run.trace);
  add(words, "--trace-level", run.trace_level);
  add(words, "--report", run.report);
  add(words, "--seed", run.seed);
  add(words, "--shuffle-ties", run.shuffle_ties);
  add(words, "--jobs", run.jobs);
  if (run.explain) words.emplace_back("--explain");
  if (run.summary) words.emplace_back("--summary");
  if (run.energy) words.emplace_back("--energy");
  if (run.whole_run) words.emplace_back("--whole-run");
  if (run.quiet) words.emplace_back("--quiet");
  if (run.verbose) words.emplace_back("--verbose");
}

void add_grid_options(Words& words, const RunArguments& run) {
  add(words, "--tie-orders", run.tie_orders);
  if (run.yes) words.emplace_back("--yes");
}

Words words_for(const RunArguments& run) {
  Words words = {"run"};
  add(words, "--bench", run.bench);
  add_run_options(words, run);
  add_grid_options(words, run);
  add(words, "--shard", run.shard);
  add(words, "--journals", run.journals);
  add(words, "--plot", run.plot);
  for (const std::string& range : run.uncertain) add(words, "--uncertain", range);
  add(words, "--runs", run.runs);
  add(words, "--metric", run.metric);
  add(words, "--rank-by", run.rank_by);
  return words;
}

Words words_for(const WhatIfArguments& whatif) {
  Words words = {"whatif"};
  add(words, "--bench", whatif.run.bench);
  add_run_options(words, whatif.run);
  add(words, "--metric", whatif.metric);
  return words;
}

Words words_for(const PlanArguments& plan) {
  Words words = {"plan"};
  add(words, "--world", plan.world);
  add(words, "--memory", plan.memory);
  add_run_options(words, plan.run);
  return words;
}

Words words_for(const CalibrateArguments& calibrate) {
  Words words = {"calibrate"};
  const RunArguments& run = calibrate.run;
  add(words, "--ccl", run.ccl);
  for (const std::string& range : calibrate.fit) add(words, "--fit", range);
  for (const std::string& setting : run.settings) add(words, "--set", setting);
  add(words, "--out", run.output_folder);
  add(words, "--json", run.json);
  add(words, "--csv", run.csv);
  add(words, "--jobs", run.jobs);
  if (run.quiet) words.emplace_back("--quiet");
  words.emplace_back("--");
  words.insert(words.end(), calibrate.machines.begin(), calibrate.machines.end());
  return words;
}

Words words_for(const CompareArguments& compare) {
  Words words = {"compare"};
  add(words, "--bench", compare.run.bench);
  add_run_options(words, compare.run);
  add(words, "--metric", compare.metric);
  add(words, "--fail-if", compare.fail_if);
  if (!compare.reports.empty()) words.emplace_back("--");
  words.insert(words.end(), compare.reports.begin(), compare.reports.end());
  return words;
}

Words words_for(const OperatorArguments& bench) {
  Words words = {"bench"};
  add(words, "--case", bench.operator_case);
  add(words, "--dtype", bench.dtype);
  add(words, "--save-path", bench.save_path);
  if (bench.plot) words.emplace_back("--plot");
  if (bench.profile) words.emplace_back("--profile");
  add_run_options(words, bench.run);
  add_grid_options(words, bench.run);
  return words;
}

Words words_for(const ProbePathArguments& path) {
  Words words = {"probe", "path"};
  add(words, "--topology", path.topology);
  add(words, "--from", path.from);
  add(words, "--to", path.to);
  add(words, "--bytes", path.bytes);
  add(words, "--json", path.json);
  return words;
}

Words words_for(const ProbeBoundArguments& bound) {
  Words words = {"probe", "bound"};
  add(words, "--topology", bound.topology);
  add(words, "--collective", bound.collective);
  add(words, "--group", bound.group);
  add(words, "--root", bound.root);
  add(words, "--bytes", bound.bytes);
  add(words, "--json", bound.json);
  return words;
}

Words words_for(const ProbeChooseArguments& choose) {
  Words words = {"probe", "choose"};
  add(words, "--topology", choose.topology);
  add(words, "--ccl", choose.ccl);
  add(words, "--collective", choose.collective);
  add(words, "--group", choose.group);
  add(words, "--group-name", choose.group_name);
  add(words, "--lanes", choose.lanes);
  add(words, "--json", choose.json);
  return words;
}

Words words_for(const ProbeOrderArguments& order) {
  Words words = {"probe", "order"};
  add(words, "--topology", order.topology);
  add(words, "--ccl", order.ccl);
  add(words, "--collective", order.collective);
  add(words, "--algorithm", order.algorithm);
  add(words, "--ranks", order.ranks);
  add(words, "--bytes", order.bytes);
  add(words, "--element", order.element);
  add(words, "--dtype", order.dtype);
  add(words, "--cube", order.cube);
  add(words, "--pe", order.pe);
  add(words, "--json", order.json);
  return words;
}

Words words_for(const ProbeGemmArguments& gemm) {
  Words words = {"probe", "gemm"};
  add(words, "--topology", gemm.topology);
  add(words, "--m", gemm.m);
  add(words, "--n", gemm.n);
  add(words, "--k", gemm.k);
  add(words, "--rows", gemm.rows);
  add(words, "--columns", gemm.columns);
  add(words, "--dataflow", gemm.dataflow);
  add(words, "--json", gemm.json);
  return words;
}

Words words_for(const ShowText&) {
  return {"--version"};
}

Arguments parse(const Words& words) {
  std::vector<const char*> pointers = {"kernbench"};
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return parse_command_line(static_cast<int>(pointers.size()), pointers.data());
}

// `--out= --seed 3` once wrote into a folder with the name "--seed".  A word ends at its first NUL,
// as an argument of a program does.
bool has_no_value(const std::string& given) {
  const std::string_view word = given.c_str();
  return word.starts_with("--") && word.find('=') == word.size() - 1;
}

void check(std::string_view input) {
  const Words given = words_of(input);
  const Arguments arguments = parse(given);
  const auto end = std::ranges::find(given, "--");
  if (std::any_of(given.begin(), end, has_no_value)) throw Finding("an option without its value");
  if (std::holds_alternative<ShowText>(arguments)) return;
  const Words words = std::visit([](const auto& one) { return words_for(one); }, arguments);
  try {
    if (parse(words) == arguments) return;
  } catch (const Error& error) {
    throw Finding(fmt::format("accepted, and refused when printed: {}\n{}", error.what(),
                              fmt::join(words, "\n")));
  }
  throw Finding(
      fmt::format("printed and read again they are other arguments:\n{}", fmt::join(words, "\n")));
}

}  // namespace

Parser parser() {
  return {.name = "command_line",
          .check = check,
          .refusal = ExitCode::usage,
          .words =
              "run list keys errors KB-C002 whatif compare completion bash bench probe path bound "
              "order gemm plan --world --memory --bench "
              "--topology --ccl --set --out "
              "--json --csv --trace --seed --jobs --yes --quiet --verbose --metric --fail-if "
              "--uncertain --runs --rank-by --tie-orders --shuffle-ties --shard --journals --case "
              "--dtype --save-path --plot "
              "--markdown "
              "--profile "
              "--from --to --bytes --collective --algorithm --ranks --element --cube --pe --m --n "
              "--k --rows --columns --dataflow --help "
              "--help-all --version -V -h -- - = [] [a,b] {} %% @file \"a\" 'b' ' \" \\"};
}

}  // namespace kernbench::fuzz::command_line
