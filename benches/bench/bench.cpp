#include "benches/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "benches/bench/bench_request.h"
#include "benches/bench/bench_state.h"
#include "benches/bench/content_hash.h"
#include "benches/bench/process_team.h"
#include "benches/bench/report.h"
#include "benches/bench/sweep_journal.h"
#include "benches/bench/sweep_run.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches {

namespace {

std::vector<BenchInfo>& registry() {
  static std::vector<BenchInfo> infos;
  return infos;
}

}  // namespace

bool register_bench(BenchInfo info) {
  registry().push_back(std::move(info));
  return true;
}

std::vector<const BenchInfo*> registered_benches() {
  std::vector<const BenchInfo*> infos;
  for (const BenchInfo& info : registry()) infos.push_back(&info);
  std::ranges::stable_sort(infos, {}, &BenchInfo::name);
  return infos;
}

const BenchInfo& find_bench(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BenchInfo* info : registered_benches()) {
    if (info->name == name) return *info;
    names.push_back(info->name);
  }
  throw UsageError("KB-U002",
                   fmt::format("no bench is named {}{}", in_quotes(name), suggestion(name, names)));
}

Bench::Bench(BenchRequest request, Settings settings, Console& console)
    : state_(std::make_unique<State>(std::move(request), std::move(settings), console)) {}

Bench::~Bench() = default;

const Topology& Bench::topology() const {
  return state_->request.topology;
}

const ccl::Config& Bench::ccl() const {
  return state_->request.ccl;
}

std::uint64_t Bench::seed() const {
  return state_->request.seed;
}

const Settings& Bench::settings() const {
  return state_->settings;
}

int Bench::jobs() const {
  return state_->request.jobs;
}

ProcessTeam* Bench::team() const {
  return state_->request.team;
}

bool Bench::leads() const {
  return team() == nullptr || team()->leads();
}

bool Bench::wants_trace() const {
  return state_->request.trace;
}

const std::filesystem::path& Bench::output_folder() const {
  return state_->output_folder;
}

bool Bench::wants_artifacts() const {
  return !state_->output_folder.empty();
}

Console& Bench::console() {
  return state_->console;
}

void Bench::interrupt(ExitCode reason) {
  state_->contexts.interrupt(reason);
}

ExitCode Bench::interruption() const {
  return state_->contexts.reason();
}

bool Bench::is_interrupted() const {
  return state_->contexts.is_interrupted();
}

const std::vector<Row>& Bench::rows() const {
  return state_->rows;
}

const std::vector<Bench::Artifact>& Bench::artifacts() const {
  return state_->artifacts;
}

const std::vector<std::string>& Bench::dropped_artifacts() const {
  return state_->dropped_artifacts;
}

bool Bench::ok() const {
  return state_->ok;
}

bool Bench::has_printed() const {
  return state_->has_printed;
}

std::vector<std::string> Bench::traces() const {
  return state_->contexts.traces();
}

Bench::Context Bench::make_context() {
  return make_context(topology(), {.ccl = ccl()});
}

Bench::Context Bench::make_context(const Topology& topology, RuntimeOptions options) {
  throw_if_interrupted();
  state_->console.open();
  return state_->contexts.make(topology, std::move(options));
}

void Bench::submit_sentinel() {
  const Context torch = make_context();
  Tensor x = torch->zeros({1, 4});
  x.copy_(RuntimeContext::tensor({1, 2, 3, 4}, {1, 4}));
  KB_CHECK(x.at({0, 3}) == 4, "the sentinel reads {}", x.at({0, 3}));
}

int Bench::world_size() const {
  return ccl().world_size().value_or(topology().system.sip_count);
}

void Bench::check_rank_is_sip() const {
  if (!ccl().world_size()) return;
  throw ConfigError("KB-Y043",
                    "ccl.yaml: the bench is of collectives of SIPs; take out world_size");
}

void Bench::configure(const BenchInfo& info) {
  if (info.configure != nullptr) state_->request.ccl = info.configure(*this);
}

void Bench::check_contract(std::string_view name) const {
  const auto systems = state_->contexts.statistics();
  if (std::ranges::any_of(systems, [](const auto& system) { return system.events > 0; })) return;
  throw Error("KB-B001", ExitCode::worker_failed,
              fmt::format("the bench '{}' has submitted no work: {}\n  a bench runs something on a "
                          "context of its own; one whose results may all be saved ones calls "
                          "bench.submit_sentinel()",
                          name,
                          systems.empty() ? "it has made no context"
                                          : "nothing ran on the contexts that it made"));
}

std::optional<std::string> Bench::unused_algorithm() const {
  if (!state_->request.ccl_is_given && !settings().is_set("algorithm")) return std::nullopt;
  if (!ccl().names_algorithm()) return std::nullopt;
  const std::vector<AlgorithmRun> runs = statistics().algorithms;
  if (std::ranges::any_of(runs, &AlgorithmRun::is_configured)) return std::nullopt;
  std::string instead;
  for (const AlgorithmRun& run : runs) {
    instead +=
        fmt::format("{}{} by {}", instead.empty() ? "" : ", ", run.collective, run.algorithm);
  }
  return fmt::format(
      "the algorithm '{}' that {} names ran no collective of this run: {}; it is for "
      "all_reduce: leave it out, or run a bench that has one",
      ccl().algorithm_name(), settings().is_set("algorithm") ? "--set algorithm=" : "--ccl",
      instead.empty() ? "there was none" : "what ran was " + instead);
}

void Bench::add_row(Row row, bool ok) {
  {
    const std::lock_guard lock(state_->results_mutex);
    state_->rows.push_back(std::move(row));
    state_->ok = state_->ok && ok;
  }
  throw_if_interrupted();
}

std::vector<Row> Bench::finished_rows() const {
  const std::lock_guard lock(state_->results_mutex);
  std::vector<Row> rows = state_->rows;
  if (state_->sweep != nullptr) {
    const std::vector<Row> of_sweep = state_->sweep->finished_rows();
    rows.insert(rows.end(), of_sweep.begin(), of_sweep.end());
  }
  return rows;
}

void Bench::set_sweep(const SweepRun* sweep) {
  const std::lock_guard lock(state_->results_mutex);
  state_->sweep = sweep;
}

std::uint64_t Bench::inputs_hash() const {
  if (!state_->inputs_hash) {
    state_->inputs_hash =
        content_hash(fmt::format("{:016x}\n{}\n{}\n{}\n{}", program_hash(), topology().name,
                                 state_->request.inputs, seed(), settings().to_text()));
  }
  return *state_->inputs_hash;
}

const std::filesystem::path& Bench::output_folder(std::string_view otherwise) {
  if (state_->output_folder.empty()) state_->output_folder = otherwise;
  return state_->output_folder;
}

void Bench::drop_artifact(std::string_view file_name) {
  state_->dropped_artifacts.emplace_back(file_name);
}

void Bench::add_artifact(std::string_view file_name, std::string content) {
  const bool is_new =
      std::ranges::find(state_->artifacts, file_name, &Artifact::name) == state_->artifacts.end();
  KB_CHECK(is_new, "the bench has two artifacts '{}'", file_name);
  if (wants_artifacts()) state_->artifacts.push_back({std::string(file_name), std::move(content)});
  throw_if_interrupted();
}

void Bench::remove_journals() {
  for (const std::filesystem::path& journal : state_->journals) {
    SweepJournal::forget(journal, inputs_hash());
  }
  state_->journals.clear();
}

void Bench::print(std::string_view text) {
  state_->has_printed = true;
  state_->console.print(text);
}

void Bench::note(std::string_view what, std::string_view text) {
  state_->console.print(note_line(what, text));
}

std::string note_line(std::string_view what, std::string_view text) {
  return fmt::format("#   {:<12}  {}\n", what, visible(text));
}

void Bench::throw_if_interrupted() const {
  if (!is_interrupted()) return;
  throw Error("KB-S001", interruption(),
              fmt::format("interrupted after {} rows", state_->rows.size()));
}

EngineStatistics Bench::statistics() const {
  const std::vector<EngineStatistics> all = state_->contexts.statistics();
  if (all.size() == 1) return all.front();
  EngineStatistics sum{.system_count = all.size()};
  for (const EngineStatistics& one : all) {
    sum.simulated += one.simulated;
    sum.events += one.events;
    sum.fingerprint = (sum.fingerprint ^ one.fingerprint) * 0x9e3779b97f4a7c15;
    if (one.busiest.kernel_time > sum.busiest.kernel_time) sum.busiest = one.busiest;
    sum.algorithms.insert(sum.algorithms.end(), one.algorithms.begin(), one.algorithms.end());
  }
  std::ranges::sort(sum.algorithms);
  const auto again = std::ranges::unique(sum.algorithms);
  sum.algorithms.erase(again.begin(), again.end());
  return sum;
}

}  // namespace kernbench::benches
