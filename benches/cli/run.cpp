#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "benches/bench/bench.h"
#include "benches/bench/bench_request.h"
#include "benches/bench/inputs.h"
#include "benches/bench/interrupt.h"
#include "benches/bench/report.h"
#include "benches/cli/commands.h"
#include "benches/cli/outputs.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches {

namespace {

constexpr int kMaxJobs = 1024;

// nullopt unless all of `text` is a number.
template <class Integer>
std::optional<Integer> integer_of(const std::string& text) {
  const char* const end = text.data() + text.size();
  Integer value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::uint64_t parse_seed(const std::string& text) {
  if (const auto seed = integer_of<std::uint64_t>(text)) return *seed;
  throw UsageError(
      "KB-U012", fmt::format("--seed {}: expected an integer from 0 to 2^64 - 1", in_quotes(text)));
}

// The number of hardware threads that this process may use.
int hardware_thread_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int parse_jobs(const std::string& text) {
  if (text.empty()) return std::min(hardware_thread_count(), kMaxJobs);
  const auto jobs = integer_of<int>(text);
  if (jobs && *jobs >= 1 && *jobs <= kMaxJobs) return *jobs;
  throw UsageError("KB-U012", fmt::format("--jobs {}: expected an integer from 1 to {}",
                                          in_quotes(text), kMaxJobs));
}

BenchRequest request_of(const RunArguments& arguments, ProcessTeam* team) {
  return {.topology = load_topology(arguments.topology),
          .ccl = load_ccl(arguments.ccl),
          .ccl_is_given = !arguments.ccl.empty(),
          .seed = parse_seed(arguments.seed),
          .trace = !arguments.trace.empty(),
          .output_folder = arguments.output_folder,
          .jobs = parse_jobs(arguments.jobs),
          .inputs = fmt::format("{}\n{}\n{}", arguments.bench, topology_text(arguments.topology),
                                ccl_text(arguments.ccl)),
          .team = team};
}

int rank_count(const BenchInfo& info, const Bench& bench) {
  return info.is_on_one_device ? 1 : bench.world_size();
}

std::string describe_ranks(const BenchInfo& info, const Bench& bench) {
  if (info.is_on_one_device) return "1 rank, on SIP 0";
  const int ranks = rank_count(info, bench);
  const std::string_view each = bench.ccl().world_size() ? "PE, from the first on" : "SIP";
  return fmt::format("{} rank{}, one on each {}", ranks, ranks == 1 ? "" : "s", each);
}

std::string head(const BenchInfo& info, const Bench& bench) {
  const Topology& topology = bench.topology();
  std::string text = fmt::format("# kernbench {}: {}\n#\n", version(), info.name);
  text += note_line("topology", fmt::format("{}: {}", topology.name, describe(topology)));
  for (const std::string& name : bench.ccl().unused_entries()) {
    text += note_line("not used", fmt::format("the entry {} of ccl.yaml, which nothing chooses",
                                              in_quotes(name)));
  }
  text += note_line("world size", describe_ranks(info, bench));
  return text + note_line("seed", fmt::format("{}", bench.seed()));
}

// 1234567 -> "1,234,567", in any locale.
std::string with_commas(std::uint64_t count) {
  std::string text = fmt::format("{}", count);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

// "sip0.cube0.pe0.gemm, for 83.0 % of the 12.300 us in which kernels ran"
std::string describe_busiest(const EngineStatistics& engine) {
  const sim::UnitUse& use = engine.busiest;
  if (use.unit.empty()) return "none";
  std::string text = fmt::format("{}, for {:.1f} % of the {:.3f} us in which kernels ran", use.unit,
                                 100 * use.share(), to_ns(use.kernel_time) / 1e3);
  if (engine.system_count > 1) text += fmt::format(", longest of {} systems", engine.system_count);
  return text;
}

std::string foot(const Report& report) {
  const EngineStatistics& engine = report.engine;
  std::string text = "#\n";
  text +=
      note_line("simulated", fmt::format("{:.3f} us in {} events", to_ns(engine.simulated) / 1e3,
                                         with_commas(engine.events)));
  text += note_line("wall", fmt::format("{:.3f} s, {:.2f} M events/s", engine.wall_s,
                                        engine.events_per_s() / 1e6));
  text += note_line("busiest unit", describe_busiest(engine));
  text += note_line("fingerprint", fmt::format("{:016x}", engine.fingerprint));
  for (const std::string& name : report.artifacts) text += note_line("wrote", name);
  return text;
}

// The report of what the bench has done so far.
Report report_of(const BenchInfo& info, const Bench& bench, double wall_s) {
  Report report{.bench = info.name,
                .ok = bench.ok(),
                .topology = bench.topology().name,
                .world_size = rank_count(info, bench),
                .seed = bench.seed(),
                .rows = bench.rows(),
                .artifacts = {},
                .engine = bench.statistics()};
  report.engine.wall_s = wall_s;
  return report;
}

bool has_done_something(const Bench& bench) {
  return bench.is_interrupted() || bench.statistics().events > 0 || !bench.rows().empty() ||
         !bench.artifacts().empty();
}

// Writes what is known of a failed run: its trace, its foot, and its rows if it was interrupted.
// Errors of writing are ignored, since the run's own error matters more.
void keep_the_finished(Report report, const Bench& bench, Outputs& outputs,
                       Console& console) noexcept {
  try {
    report.ok = false;
    outputs.write_artifacts(bench, report);
    console.print(foot(report));
    if (bench.is_interrupted()) outputs.write_report(report);
  } catch (const std::exception&) {
  }
}

// Writes the rows of an interrupted run that is still going on.
void keep_finished_rows(const BenchInfo& info, const Bench& bench, double wall_s,
                        Outputs& outputs) {
  Report report{.bench = info.name,
                .ok = false,
                .topology = bench.topology().name,
                .world_size = rank_count(info, bench),
                .seed = bench.seed(),
                .rows = bench.finished_rows(),
                .artifacts = {},
                .engine = bench.statistics()};
  report.engine.wall_s = wall_s;
  outputs.write_report(report);
  Console(STDERR_FILENO)
      .print(fmt::format("kernbench: error: [KB-S001] interrupted after {} rows, while the host "
                         "computed\n",
                         report.rows.size()));
}

}  // namespace

int run(const RunArguments& arguments, ProcessTeam* team) {
  return run(find_bench(arguments.bench), arguments, team);
}

int run(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team) {
  Settings settings(info.settings, arguments.settings);
  BenchRequest request = request_of(arguments, team);
  const bool leads = team == nullptr || team->leads();
  // Opens the outputs first, so that one that cannot be written is found before the simulation.
  Outputs outputs(leads ? arguments : RunArguments{});
  Console console =
      leads ? Console(outputs.uses_stdout() ? STDERR_FILENO : STDOUT_FILENO) : Console::silent();
  Bench bench(std::move(request), std::move(settings), console);
  bench.configure(info);

  console.begin_with(head(info, bench));  // unless it ends before it has done anything
  const auto start = std::chrono::steady_clock::now();
  const auto wall_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  InterruptWatch watch([&](ExitCode reason) { bench.interrupt(reason); },  // also while it writes
                       [&](ExitCode) {
                         if (leads) keep_finished_rows(info, bench, wall_s(), outputs);
                       });
  try {
    info.run(bench);
    watch.run_ended();
    bench.check_contract(info.name);
  } catch (...) {
    watch.run_ended();
    if (leads && has_done_something(bench))
      keep_the_finished(report_of(info, bench, wall_s()), bench, outputs, console);
    throw;
  }
  if (!leads) return 0;

  Report report = report_of(info, bench, wall_s());
  if (!bench.has_printed()) console.print("#\n" + to_table(report.rows));
  outputs.write_artifacts(bench, report);
  console.print(foot(report));
  for (const std::string& name : outputs.write_report(report)) {
    console.print(note_line("wrote", name));
  }
  bench.remove_journals();
  console.finish();
  if (!report.ok) return static_cast<int>(ExitCode::worker_failed);
  if (const auto unused = bench.unused_algorithm()) throw ConfigError("KB-Y046", *unused);
  return static_cast<int>(ExitCode::ok);
}

}  // namespace kernbench::benches
