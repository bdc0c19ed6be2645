#include "benches/cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <sstream>
#include <string_view>

#include "benches/bench/report.h"
#include "benches/bench/settings.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches {

namespace {

// Adds an option, whose default is the value that it has now.
template <class Value>
CLI::Option* add(CLI::App* app, const char* name, const char* type, Value& value,
                 const char* help) {
  CLI::Option* option = app->add_option(name, value, help)->type_name(type);
  return value.empty() ? option : option->capture_default_str();
}

void add_topology(CLI::App* app, std::string& topology) {
  add(app, "--topology", "F|NAME", topology, "A topology file, or the name of a shipped one");
}

void add_collective(CLI::App* app, std::string& collective, std::string& group) {
  add(app, "--collective", "NAME", collective, "One that the bench `collectives` has");
  add(app, "--group", "RANKS", group, "Such as 0,2,4; else all");
}

void add_jobs(CLI::App* app, std::string& jobs) {
  add(app, "--jobs", "N", jobs,
      "Points of a sweep to simulate at once; else one per hardware thread");
}

void add_shuffle_ties(CLI::App* app, std::string& seed) {
  add(app, "--shuffle-ties", "SEED", seed,
      "Draw the order of what happens at the same instant; else it is that of cause");
}

void add_json(CLI::App* app, std::string& json) {
  add(app, "--json", "F", json, "Write it as JSON to this file; - for stdout");
}

void add_explain(CLI::App* app, bool& explain) {
  app->add_flag("--explain", explain, "Show where the simulated time went");
}

void add_list(CLI::App& app, ListArguments& arguments) {
  CLI::App* list = app.add_subcommand("list", "Show benches, algorithms and topologies");
  add_json(list, arguments.json);
  list->footer("\nExamples:\n  kernbench list\n  kernbench list --json -");
}

void add_keys(CLI::App& app, KeysArguments& arguments) {
  CLI::App* keys = app.add_subcommand("keys", "Show the keys that --set takes");
  add(keys, "--bench", "NAME", arguments.bench, "Keys of this bench; else of each");
  add_topology(keys, arguments.topology);
  add(keys, "--ccl", "F", arguments.ccl, "ccl.yaml: the algorithm and its queues");
  add_json(keys, arguments.json);
  keys->footer("\nExamples:\n  kernbench keys\n  kernbench keys --bench tp-mlp --topology tiny");
}

void add_run(CLI::App& app, RunArguments& arguments) {
  CLI::App* run = app.add_subcommand("run", "Run a bench");
  add(run, "--bench", "NAME", arguments.bench, "Its name; `kernbench list` shows all")->required();
  add_topology(run, arguments.topology);
  add(run, "--ccl", "F", arguments.ccl, "ccl.yaml: the algorithm and its queues");
  add(run, "--set,--vary", "KEY=VALUE", arguments.settings,
      "Keys of the bench, the topology or ccl.yaml, one or more;\nseveral values make a grid");
  run->add_flag("--yes", arguments.yes, "Run a grid of more than 10,000 points");
  add(run, "--seed", "N", arguments.seed, "Of whatever draws random numbers");
  add_shuffle_ties(run, arguments.shuffle_ties);
  add(run, "--tie-orders", "N", arguments.tie_orders,
      "Simulate each point of a sweep in so many such orders too, and show how far its times vary");
  add(run, "--out", "DIR", arguments.output_folder,
      "Write report.json, report.csv and the bench's files into this folder");
  add(run, "--json", "F", arguments.json, "Write the report to this file; - for stdout");
  add(run, "--csv", "F", arguments.csv, "Write the rows to this file; - for stdout");
  add(run, "--trace", "F", arguments.trace, "Write a trace for ui.perfetto.dev");
  add(run, "--trace-level", "LEVEL", arguments.trace_level,
      "What it shows: ranks, kernels too, or all units too");
  add_explain(run, arguments.explain);
  add(run, "--report", "F", arguments.report, "Write where the time went as an HTML page");
  add_jobs(run, arguments.jobs);
  run->footer(
      "\nExamples:\n"
      "  kernbench run --bench ccl-allreduce\n"
      "  kernbench run --bench ccl-allreduce --topology torus_2d_2x3 --set n_elem=1024,49152 "
      "dtype=bf16\n"
      "  kernbench run --bench ccl-allreduce --set algorithm=auto --json - | jq .rows\n"
      "  kernbench run --bench ccl-allreduce --topology tiny --explain --report report.html\n"
      "  kernbench run --bench ccl-allreduce --set sip.ucie.bandwidth='64,128,256 GB/s' "
      "system.sips.count=2,4\n"
      "\nA value is a comma list: all combinations are run.  Keys that are lists themselves, as "
      "n_elem,\ntake several lists between semicolons.  `kernbench keys` lists all keys.\n"
      "\nCtrl-C ends a run in order: what is finished is written, and a sweep that has an output\n"
      "folder goes on from there when the same command is given again.\n"
      "\nExit codes: 0 fine, 1 a check or a worker failed, 2 wrong command line, 3 wrong\n"
      "configuration, 4 output, 20 deadlock, 21 collectives, 22 device, 23 numerics, 24 values,\n"
      "70 our bug, 71 a limit of the host, 130, 143 and 129 ended by SIGINT, SIGTERM and SIGHUP.");
}

void add_bench(CLI::App& app, OperatorArguments& arguments) {
  CLI::App* bench = app.add_subcommand("bench", "Check an operator, and time its kernels");
  add(bench, "--case", "NAME", arguments.operator_case, "The operator; `kernbench list` shows all")
      ->required();
  add(bench, "--dtype", "TYPE", arguments.dtype, "f16, bf16 and f32, separated by commas, or all");
  add(bench, "--save-path", "DIR", arguments.save_path,
      "Write CSV, figures and traces into this folder, in CASE/TYPE");
  bench->add_flag("--plot", arguments.plot,
                  "Batch 1 only, and figures of the speed-up over the length");
  bench->add_flag("--profile", arguments.profile,
                  "Chrome traces of batch 1 and the largest dimension");
  add_explain(bench, arguments.explain);
  add_topology(bench, arguments.topology);
  add(bench, "--seed", "N", arguments.seed, "Of the inputs' elements");
  add_shuffle_ties(bench, arguments.shuffle_ties);
  add_jobs(bench, arguments.jobs);
  bench->footer(
      "\nFirst every provider of the operator is checked, forward and backward; then it is timed.\n"
      "A check that fails ends the run with exit code 23 before any time is shown.\n"
      "\nExamples:\n"
      "  kernbench bench --case rms\n"
      "  kernbench bench --case mul_poly --dtype all --profile --save-path results\n"
      "  kernbench bench --case rms --plot --save-path plots");
}

void add_path(CLI::App& probe, ProbePathArguments& arguments) {
  CLI::App* path = probe.add_subcommand(
      "path", "The way of a message between two PEs: its links, simulated and in closed form");
  add_topology(path, arguments.topology);
  add(path, "--from", "sipS.cubeC.peP", arguments.from, "The sending PE")->required();
  add(path, "--to", "sipS.cubeC.peP", arguments.to, "The receiving PE")->required();
  add(path, "--bytes", "N", arguments.bytes, "Size of the message, such as 65536 or 64KiB")
      ->required();
  add_json(path, arguments.json);
  path->footer(
      "\nExample:\n"
      "  kernbench probe path --from sip0.cube0.pe0 --to sip1.cube0.pe0 --bytes 64KiB");
}

void add_bound(CLI::App& probe, ProbeBoundArguments& arguments) {
  CLI::App* bound = probe.add_subcommand(
      "bound", "The time that no algorithm for a collective can beat on a topology");
  add_topology(bound, arguments.topology);
  add_collective(bound, arguments.collective, arguments.group);
  add(bound, "--root", "R", arguments.root, "Rank in the group, of a collective that has a root");
  add(bound, "--bytes", "N", arguments.bytes, "Its size as `collectives` counts it: 65536, 64KiB")
      ->required();
  add_json(bound, arguments.json);
  bound->footer(
      "\nExample:\n"
      "  kernbench probe bound --topology ring_1d_6 --collective all_reduce --bytes 1MiB");
}

void add_choose(CLI::App& probe, ProbeChooseArguments& arguments) {
  CLI::App* choose = probe.add_subcommand(
      "choose",
      "By which algorithm a collective of a group runs, for each size, and its time by "
      "the model");
  add_topology(choose, arguments.topology);
  add(choose, "--ccl", "F", arguments.ccl, "ccl.yaml, whose rules go before the model");
  add_collective(choose, arguments.collective, arguments.group);
  add(choose, "--group-name", "TEXT", arguments.group_name,
      "The group's description, by which rules name it");
  add(choose, "--lanes", "N", arguments.lanes, "PEs of a SIP that send, else all");
  add_json(choose, arguments.json);
  choose->footer(
      "\nExample:\n"
      "  kernbench probe choose --topology torus_2d_2x3 --collective broadcast --group 0,1,3,4");
}

void add_gemm(CLI::App& probe, ProbeGemmArguments& arguments) {
  CLI::App* gemm = probe.add_subcommand(
      "gemm", "The cycles of a GEMM [m, k] x [k, n] on a PE's array, in closed form");
  add_topology(gemm, arguments.topology);
  add(gemm, "--m", "M", arguments.m, "Rows of the result")->required();
  add(gemm, "--n", "N", arguments.n, "Columns of the result")->required();
  add(gemm, "--k", "K", arguments.k, "Length of the sums")->required();
  add(gemm, "--rows", "R", arguments.rows, "Of the array, else the topology's");
  add(gemm, "--columns", "C", arguments.columns, "Of the array, else the topology's");
  add(gemm, "--dataflow", "NAME", arguments.dataflow,
      "output_stationary, weight_stationary or input_stationary,\nelse the topology's");
  add_json(gemm, arguments.json);
  gemm->footer(
      "\nExample:\n"
      "  kernbench probe gemm --m 4096 --n 4096 --k 4096 --rows 128 --columns 128");
}

const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string full_name(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? app->get_name() : full_name(parent) + ' ' + app->get_name();
}

// "unknown option '--topolgy'; did you mean '--topology'?"
std::string describe_unknown(const CLI::App& app, const std::string& word) {
  const CLI::App* at = deepest(&app);
  std::vector<std::string> names;
  for (const CLI::Option* option : at->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
  if (!word.starts_with('-')) {
    names.clear();
    for (const CLI::App* command : commands) names.push_back(command->get_name());
  }
  const std::string plain = word.substr(0, word.find('='));
  const std::vector<std::string_view> views(names.begin(), names.end());
  const char* kind = word.starts_with('-') ? "option" : commands.empty() ? "argument" : "command";
  return fmt::format("unknown {} {}{}", kind, in_quotes(plain),
                     views.empty() ? "" : suggestion(plain, views));
}

[[noreturn]] void refuse(const CLI::App& app, std::string_view why) {
  throw UsageError("KB-U001", fmt::format("{}\n  see: {} --help", why, full_name(deepest(&app))));
}

// Refuses options with an empty value: an unwanted option has to be left out.
void check_values(const CLI::App& app) {
  for (const CLI::App* at = &app; at != nullptr;) {
    for (const CLI::Option* option : at->get_options()) {
      const auto& values = option->results();
      if (option->get_type_size() == 0) continue;  // a flag
      if (std::ranges::find(values, "") == values.end()) continue;
      throw UsageError("KB-U012",
                       fmt::format("{} '': expected {}, got nothing; leave the option out if it is "
                                   "not wanted",
                                   option->get_name(), option->get_type_name()));
    }
    at = at->get_subcommands().empty() ? nullptr : at->get_subcommands().front();
  }
}

// Refuses `--out=`, since CLI11 would take the next word as its value.
void check_words(std::span<const char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--") return;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string_view option = word.substr(0, word.size() - 1);
    throw UsageError("KB-U012",
                     fmt::format("{} '': expected a value, got nothing; leave the option "
                                 "out if it is not wanted",
                                 shown(option)));
  }
}

std::string print_help(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream text;
  app.exit(error, text, text);
  return text.str();
}

}  // namespace

Arguments parse_command_line(int argc, const char* const* argv) {
  check_words({argv, static_cast<std::size_t>(argc)});
  CLI::App app(
      "Multi-rank collectives and kernels on a simulated accelerator:\n"
      "times and values in one run.",
      "kernbench");
  app.set_version_flag("-V,--version", fmt::format("kernbench {}", version()));
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.require_subcommand(1);
  app.footer(
      "\nExamples:\n  kernbench list\n  kernbench run --bench ccl-allreduce\n"
      "  kernbench bench --case rms\n"
      "  kernbench probe path --from sip0.cube0.pe0 --to sip1.cube0.pe0 --bytes 64KiB\n"
      "`kernbench COMMAND --help` shows more.");
  ListArguments list;
  KeysArguments keys;
  RunArguments run;
  OperatorArguments bench;
  ProbePathArguments path;
  ProbeBoundArguments bound;
  ProbeChooseArguments choose;
  ProbeGemmArguments gemm;
  add_list(app, list);
  add_keys(app, keys);
  add_run(app, run);
  add_bench(app, bench);
  CLI::App* probe = app.add_subcommand("probe", "One figure of the model");
  probe->require_subcommand(1);
  add_path(*probe, path);
  add_bound(*probe, bound);
  add_choose(*probe, choose);
  add_gemm(*probe, gemm);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return ShowText{print_help(app, success)};
  } catch (const CLI::ParseError& error) {
    // A misspelt word explains why another is missing, so it comes first.
    const std::vector<std::string> unknown = app.remaining(true);
    refuse(app, unknown.empty() ? error.what() : describe_unknown(app, unknown.front()));
  }
  check_values(app);
  if (app.got_subcommand("list")) return list;
  if (app.got_subcommand("keys")) return keys;
  if (app.got_subcommand("run")) return run;
  if (app.got_subcommand("bench")) return bench;
  if (probe->got_subcommand("path")) return path;
  if (probe->got_subcommand("choose")) return choose;
  if (probe->got_subcommand("gemm")) return gemm;
  return bound;
}

}  // namespace kernbench::benches
