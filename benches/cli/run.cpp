#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "benches/bench/bench_run.h"
#include "benches/bench/head_and_foot.h"
#include "benches/bench/interrupt.h"
#include "benches/bench/progress.h"
#include "benches/bench/report.h"
#include "benches/bench/split_list.h"
#include "benches/cli/commands.h"
#include "benches/cli/outputs.h"
#include "benches/cli/perform.h"
#include "benches/cli/run_outputs.h"
#include "benches/cli/uncertain.h"
#include "benches/variants/row_plot.h"
#include "benches/variants/variant_sweep.h"
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

SweepShard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto number = parse_whole<std::size_t>(text.substr(0, slash));
  const auto count = parse_whole<std::size_t>(text.substr(std::min(slash + 1, text.size())));
  if (number && count && *number >= 1 && *number <= *count) return {*number, *count};
  throw UsageError("KB-U012", "--shard {}: expected I/N with I from 1 to N, such as 1/3",
                   in_quotes(text));
}

std::vector<std::filesystem::path> parse_journals(const std::string& text) {
  std::vector<std::filesystem::path> folders;
  if (text.empty()) return folders;
  for (const std::string_view folder : split_list("--journals", text)) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) {
      throw UsageError("KB-U012",
                       "--journals {}: {} is no folder; give those of --out of the shards",
                       in_quotes(text), in_quotes(folder));
    }
    folders.emplace_back(folder);
  }
  return folders;
}

// A shard leaves points for another run, and such points have recorded nothing.
void check_shards(const RunArguments& arguments) {
  for (const auto& [option, value] :
       {std::pair("--shard", arguments.shard), std::pair("--journals", arguments.journals)}) {
    if (value.empty()) continue;
    if (arguments.output_folder.empty()) {
      throw UsageError("KB-U012", "{} {}: add --out DIR, where the journal is", option,
                       in_quotes(value));
    }
    if (!arguments.trace.empty() || needs_profile(arguments)) {
      throw UsageError("KB-U012",
                       "{} {}: a finished point has no trace and no profile: leave out --trace, "
                       "--explain, --summary, --report and --kineto",
                       option, in_quotes(value));
    }
  }
}

void check_whole_run(const RunArguments& arguments) {
  if (!arguments.whole_run || arguments.explain || arguments.summary || !arguments.report.empty()) {
    return;
  }
  throw UsageError(
      "KB-U012",
      "--whole-run: has no effect without --explain, --summary or --report FILE; add one");
}

void check_energy(const RunArguments& arguments, const Topology& topology) {
  if (!arguments.energy || topology.energy != EnergySpec{}) return;
  throw UsageError("KB-U012",
                   "--energy: the topology '{}' does not say what anything takes; give it a "
                   "section `energy`, as default has, or --set energy.hbm='3.9 pJ/bit'",
                   topology.name);
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

Folds parse_folds(std::string_view text) {
  if (text == "off") return Folds::none;
  if (text == "near") return Folds::nearly;
  return text == "exact" ? Folds::exactly : Folds::by_number;
}

BenchRequest make_request(const BenchInfo& info, const RunArguments& arguments, const Work& work,
                          ProcessTeam* team) {
  check_whole_run(arguments);
  check_energy(arguments, work.first.topology);
  return {.topology = work.first.topology,
          .ccl = work.first.ccl,
          .ccl_is_given = work.first.names_ccl,
          .ccl_file_is_given = work.first.names_ccl_file,
          .ccl_name = work.first.ccl_name,
          .seed = parse_seed("--seed", arguments.seed),
          .shuffle_ties = parse_shuffle_ties(arguments.shuffle_ties),
          .tie_orders = parse_tie_orders(arguments.tie_orders, info),
          .folds = parse_folds(arguments.fold),
          .recording = {.trace = parse_trace(arguments),
                        .energy = arguments.energy,
                        .profile = needs_profile(arguments)},
          .output_folder = arguments.output_folder,
          .jobs = parse_jobs(arguments.jobs),
          .inputs = work.inputs,
          .team = team,
          .shows_progress = !arguments.quiet,
          .shard = parse_shard(arguments.shard),
          .journals = parse_journals(arguments.journals),
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

// Returns the exit code of a run that has come to its end.
int end_run(BenchRun& run, const Report& report) {
  run.remove_journals();
  run.console.finish();
  if (!report.ok) {
    Console(STDERR_FILENO).print(run.describe_failed());
    return static_cast<int>(ExitCode::worker_failed);
  }
  if (const auto unused = run.unused_algorithm()) throw ConfigError("KB-Y046", *unused);
  return static_cast<int>(ExitCode::ok);
}

bool has_done_something(const BenchRun& run) {
  return run.is_interrupted() || run.statistics().events > 0 || !run.rows().empty() ||
         !run.artifacts().empty();
}

}  // namespace

int run(const RunArguments& arguments, ProcessTeam* team) {
  return run(registered_benches().find(arguments.bench), arguments, team);
}

int run(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team) {
  check_outputs(arguments);
  check_shards(arguments);
  check_uncertain(arguments);
  if (!arguments.uncertain.empty()) return run_uncertain(info, arguments, team);
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
          .assignments = arguments.settings,
          .faults = arguments.faults};
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
  if (leads && run.request.shows_progress) {
    const auto progress = std::make_shared<SimulationProgress>(info.name, STDERR_FILENO);
    run.contexts.set_beat([=](Time now, std::uint64_t events) { progress->show(now, events); });
  }

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
    explanation = add_to(bench, arguments, work, leads);
    watch.run_ended();
    run.check_contract(info.name);
  } catch (const ShardEnded& shard) {
    watch.run_ended();
    run.console.print_behind_opening(note_line("shard", shard.text));
    run.console.finish();
    return static_cast<int>(run.ok() ? ExitCode::ok : ExitCode::worker_failed);
  } catch (...) {
    watch.run_ended();
    if (leads && has_done_something(run)) keep_the_finished(report_now(), run, outputs);
    throw;
  }
  if (!leads) return 0;
  const Report report = write_outputs({arguments, work, run, outputs, explanation}, report_now());
  return end_run(run, report);
}

}  // namespace kernbench::benches::cli
