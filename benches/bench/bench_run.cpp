#include "benches/bench/bench_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/bench/content_hash.h"
#include "benches/bench/process_team.h"
#include "benches/bench/sweep_journal.h"
#include "benches/bench/sweep_run.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/line_width.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::benches {

BenchRun::BenchRun(BenchRequest its_request, Settings its_settings, Console& its_console)
    : request(std::move(its_request)),
      settings(std::move(its_settings)),
      console(its_console),
      contexts(request.recording, request.shuffle_ties),
      output_folder(request.output_folder) {}

BenchRun::BenchRun(BenchRequest its_request, Settings its_settings, Console& its_console,
                   ContextSet& whole)
    : request(std::move(its_request)),
      settings(std::move(its_settings)),
      console(its_console),
      contexts(whole, request.recording),
      is_point_(true) {}

void BenchRun::configure(const BenchInfo& info) {
  if (info.configure != nullptr) request.ccl = info.configure(Bench(*this));
  if (!request.tie_orders) request.tie_orders = info.tie_orders;
}

bool BenchRun::leads() const {
  return !is_point_ && (request.team == nullptr || request.team->leads());
}

std::uint64_t BenchRun::inputs_hash() const {
  const std::string ties =
      fmt::format("{} {}", tie_orders(),
                  request.shuffle_ties ? fmt::to_string(*request.shuffle_ties) : "in order");
  const auto by_environment = launches_block_by_environment();
  const bool blocks = by_environment.value_or(request.topology.launch.blocking);
  const std::string_view launches = blocks ? "blocking" : "queued";
  const std::string folds = fmt::format("\nfolds {}", static_cast<int>(request.folds));
  const std::string_view energy = request.recording.energy ? "\nwith energy" : "";
  return content_hash(fmt::format("{:016x}\n{}\n{}\n{}\n{}\n{}\n{}{}{}", program_hash(),
                                  request.topology.name, request.inputs, request.seed, ties,
                                  launches, settings.to_text(), energy, folds));
}

void BenchRun::throw_if_interrupted() const {
  if (!is_interrupted()) return;
  throw Error("KB-S001", contexts.reason(), fmt::format("interrupted after {} rows", rows_.size()));
}

void BenchRun::add_rows(std::span<const Row> rows, bool ok, std::string_view what) {
  const std::lock_guard lock(results_mutex_);
  if (!ok) failed_.emplace_back(what);
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  ok_ = ok_ && ok;
}

std::string BenchRun::describe_failed() const {
  constexpr std::size_t kMostLines = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(failed_.size(), kMostLines); ++i) {
    text += fmt::format("kernbench: error: [KB-B003] {}\n", failed_[i]);
  }
  if (failed_.size() > kMostLines) {
    text += fmt::format("  and {} more\n", failed_.size() - kMostLines);
  }
  return text;
}

bool BenchRun::ok() const {
  const std::lock_guard lock(results_mutex_);
  return ok_;
}

std::vector<Row> BenchRun::finished_rows() const {
  const std::lock_guard lock(results_mutex_);
  std::vector<Row> rows = rows_;
  if (sweep_ != nullptr) {
    const std::vector<Row> more = sweep_->finished_rows();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

void BenchRun::set_sweep(const SweepRun* sweep) {
  const std::lock_guard lock(results_mutex_);
  sweep_ = sweep;
}

void BenchRun::add_artifact(std::string_view file_name, std::string content) {
  const bool is_new = std::ranges::find(artifacts_, file_name, &Artifact::name) == artifacts_.end();
  KB_CHECK(is_new, "the bench has two artifacts '{}'", file_name);
  if (output_folder.empty()) return;
  artifacts_.push_back({std::string(file_name), std::move(content)});
}

bool BenchRun::add_journal(const std::filesystem::path& journal, bool stays) {
  return journals_.emplace(journal, stays).second;
}

void BenchRun::remove_journals() {
  for (const auto& [journal, stays] : journals_) {
    if (!stays) SweepJournal::forget(journal, inputs_hash());
  }
  journals_.clear();
}

EngineStatistics BenchRun::statistics() const {
  const std::vector<EngineStatistics> all = contexts.statistics();
  if (all.size() == 1) return all.front();
  EngineStatistics sum{.system_count = all.size()};
  for (const EngineStatistics& one : all) {
    sum.simulated += one.simulated;
    sum.timed += one.timed;
    sum.events += one.events;
    sum.ranks_of_each = std::max(sum.ranks_of_each, one.ranks_of_each);
    sum.are_nearly_alike = sum.are_nearly_alike || one.are_nearly_alike;
    if (sum.unlike.empty()) sum.unlike = one.unlike;
    sum.energy += one.energy;
    add_effects(sum.faults, one.faults);
    sum.fingerprint = (sum.fingerprint ^ one.fingerprint) * 0x9e3779b97f4a7c15;
    if (one.busiest.kernel_time > sum.busiest.kernel_time) sum.busiest = one.busiest;
    sum.algorithms.insert(sum.algorithms.end(), one.algorithms.begin(), one.algorithms.end());
    sum.rules.insert(sum.rules.end(), one.rules.begin(), one.rules.end());
  }
  std::ranges::sort(sum.algorithms);
  const auto again = std::ranges::unique(sum.algorithms);
  sum.algorithms.erase(again.begin(), again.end());
  return sum;
}

void BenchRun::check_contract(std::string_view name) const {
  const auto systems = contexts.statistics();
  if (std::ranges::any_of(systems, [](const auto& system) { return system.events > 0; })) return;
  throw Error(
      "KB-B001", ExitCode::worker_failed,
      "the bench '{}' has submitted no work: {}\n  a bench runs something on a context of its own; "
      "one whose results may all be saved ones calls bench.submit_sentinel()",
      name,
      systems.empty() ? "it has made no context" : "nothing ran on the contexts that it made");
}

std::optional<std::string> BenchRun::unused_algorithm() const {
  if (!request.ccl_is_given && !settings.is_set("algorithm")) return std::nullopt;
  if (!request.ccl.names_algorithm()) return std::nullopt;
  if (request.ccl.choice_text() == ccl::kAuto) return std::nullopt;  // as if nobody named one
  const std::vector<AlgorithmRun> runs = statistics().algorithms;
  if (std::ranges::any_of(runs, &AlgorithmRun::is_configured)) return std::nullopt;
  const std::string& choice = request.ccl.choice_text();
  std::string instead;
  for (const AlgorithmRun& run : runs) {
    instead +=
        fmt::format("{}{} by {}", instead.empty() ? "" : ", ", run.collective, run.algorithm);
  }
  return fmt::format(
      "the algorithm '{}' that {} names ran no collective of this run: {}; {}", choice,
      settings.is_set("algorithm") ? "--set algorithm=" : "--ccl",
      instead.empty() ? "there was none" : "what ran was " + instead,
      choice.find(':') == std::string::npos
          ? "it is for all_reduce: leave it out, or run a bench that has one"
          : "before the colon stand a collective, or a group's description as new_group() has it");
}

std::string note_line(std::string_view what, std::string_view text) {
  constexpr std::string_view head = "#                 ";
  return wrapped(fmt::format("#   {:<12}  {}", what, visible(text)), head) + '\n';
}

}  // namespace kernbench::benches
