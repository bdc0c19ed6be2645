#include "benches/bench/head_and_foot.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "benches/bench/inputs.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches {

namespace {

int rank_count(const BenchInfo& info, BenchRun& run) {
  return info.ranks == BenchRanks::one ? 1 : Bench(run).world_size();
}

std::string describe_ranks(const BenchInfo& info, BenchRun& run) {
  if (info.ranks == BenchRanks::one) return "1 rank, on SIP 0";
  const int ranks = rank_count(info, run);
  const std::string_view each = run.request.ccl.world_size() ? "PE, from the first on" : "SIP";
  return fmt::format("{} rank{}, one on each {}", ranks, ranks == 1 ? "" : "s", each);
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

// A flip whose run passes all checks is told to have been silent.
std::string describe_effect(const FaultEffect& effect, bool ok) {
  const std::string text = describe(effect);
  if (!effect.is_flip || effect.count == 0) return text;
  return text + (ok ? "; no check has seen it" : "; a check has failed");
}

}  // namespace

std::string with_commas(std::uint64_t count) {
  std::string text = fmt::format("{}", count);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

std::string head(const BenchInfo& info, BenchRun& run, const Variation& variation) {
  const Topology& topology = run.request.topology;
  std::string text = fmt::format("# kernbench {}: {}\n#\n", version(), info.name);
  text += note_line("topology", fmt::format("{}: {}", topology.name, describe(topology)));
  const bool is_of_topology =
      !run.request.ccl_file_is_given && run.request.ccl_name.find('/') != std::string::npos;
  if (is_of_topology) text += note_line("ccl", run.request.ccl_name);
  for (const std::string& name : run.request.ccl.unused_entries()) {
    if (!run.request.ccl_file_is_given) break;
    text += note_line("not used", fmt::format("the entry {} of ccl.yaml, which nothing chooses",
                                              in_quotes(name)));
  }
  if (info.ranks != BenchRanks::own) text += note_line("world size", describe_ranks(info, run));
  text += note_line("seed", fmt::format("{}", run.request.seed));
  if (const auto blocking = launches_block_by_environment()) {
    text += note_line("launches",
                      *blocking ? "blocking, by the environment" : "queued, by the environment");
  }
  for (const auto& [key, value] : variation.fixed) {
    if (!run.settings.is_set(key)) text += note_line("set", fmt::format("{}={}", key, value));
  }
  for (const Fault& fault : topology.faults) text += note_line("fault", fault.text);
  for (const std::string& axis : variation.axes) text += note_line("varies", axis);
  if (run.request.shuffle_ties) {
    text += note_line("ties", fmt::format("shuffled, seed {}", *run.request.shuffle_ties));
  }
  return text;
}

Report make_report(const BenchInfo& info, BenchRun& run, std::span<const Assignment> set,
                   double wall_s) {
  Report report{.bench = info.name,
                .ok = run.ok(),
                .topology = run.request.topology.name,
                .world_size = rank_count(info, run),
                .seed = run.request.seed,
                .set = {set.begin(), set.end()},
                .shuffle_ties = run.request.shuffle_ties,
                .rows = run.finished_rows(),
                .artifacts = {},
                .engine = run.statistics()};
  report.engine.wall_s = wall_s;
  std::vector<FaultEffect> not_met;
  for (const Fault& fault : run.request.topology.faults) {
    not_met.push_back({.fault = fault.text, .detail = "no machine of this bench has it"});
  }
  add_missing_effects(report.engine.faults, not_met);
  return report;
}

std::string unused_rules_note(const BenchRun& run) {
  std::string text;
  if (!run.request.ccl_file_is_given) return text;
  for (const std::string& rule : run.request.ccl.unused_rules(run.statistics().rules)) {
    text += note_line("not used", rule + ", which decided for no call");
  }
  return text;
}

std::string foot(const Report& report) {
  const EngineStatistics& engine = report.engine;
  std::string text = "#\n";
  text +=
      note_line("simulated", fmt::format("{:.3f} us in {} events", to_ns(engine.simulated) / 1e3,
                                         with_commas(engine.events)));
  if (engine.ranks_of_each > 1) {
    const std::string_view accuracy =
        engine.are_nearly_alike ? ", so a later step's time is within 2 %" : "";
    text += note_line(
        engine.are_nearly_alike ? "nearly alike" : "alike",
        fmt::format("one rank was simulated for {}{}{}; --fold off simulates each",
                    engine.system_count > 1 ? "up to " : "", engine.ranks_of_each, accuracy));
  }
  if (!engine.unlike.empty()) text += note_line("not alike", engine.unlike);
  text += note_line("wall", fmt::format("{:.3f} s, {:.2f} M events/s", engine.wall_s,
                                        engine.events_per_s() / 1e6));
  text += note_line("busiest unit", describe_busiest(engine));
  for (const FaultEffect& effect : engine.faults) {
    text += note_line("fault", describe_effect(effect, report.ok));
  }
  text += note_line("fingerprint", fmt::format("{:016x}", engine.fingerprint));
  for (const std::string& name : report.artifacts) text += note_line("wrote", name);
  return text;
}

}  // namespace kernbench::benches
