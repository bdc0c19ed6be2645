#include "benches/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/content_hash.h"
#include "benches/sweep_journal.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/config_errors.h"
#include "sim_engine/base/error.h"

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
    : request_(std::move(request)), settings_(std::move(settings)), console_(console) {}

Bench::Context Bench::make_context(const Topology& topology, RuntimeOptions options) {
  throw_if_interrupted();
  console_.open();
  return contexts_.make(topology, std::move(options));
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
  if (info.configure != nullptr) request_.ccl = info.configure(*this);
}

void Bench::check_contract(std::string_view name) const {
  const auto& systems = contexts_.statistics();
  if (std::ranges::any_of(systems, [](const auto& system) { return system.events > 0; })) return;
  throw Error("KB-B001", ExitCode::worker_failed,
              fmt::format("the bench '{}' has submitted no work: {}\n  a bench runs something on a "
                          "context of its own; one whose results may all be saved ones calls "
                          "bench.submit_sentinel()",
                          name,
                          systems.empty() ? "it has made no context"
                                          : "nothing ran on the contexts that it made"));
}

void Bench::add_row(Row row, bool ok) {
  rows_.push_back(std::move(row));
  ok_ = ok_ && ok;
  throw_if_interrupted();
}

std::uint64_t Bench::inputs_hash() const {
  if (!inputs_hash_) {
    inputs_hash_ =
        content_hash(fmt::format("{:016x}\n{}\n{}\n{}\n{}", program_hash(), topology().name,
                                 request_.inputs, seed(), settings().to_text()));
  }
  return *inputs_hash_;
}

const std::filesystem::path& Bench::output_folder(std::string_view otherwise) {
  if (output_folder_.empty()) output_folder_ = otherwise;
  return output_folder_;
}

void Bench::drop_artifact(std::string_view file_name) {
  dropped_artifacts_.emplace_back(file_name);
}

void Bench::add_artifact(std::string_view file_name, std::string content) {
  const bool is_new = std::ranges::find(artifacts_, file_name, &Artifact::name) == artifacts_.end();
  KB_CHECK(is_new, "the bench has two artifacts '{}'", file_name);
  if (wants_artifacts()) artifacts_.push_back({std::string(file_name), std::move(content)});
  throw_if_interrupted();
}

void Bench::remove_journals() {
  for (const std::filesystem::path& journal : journals_) {
    SweepJournal::forget(journal, inputs_hash());
  }
  journals_.clear();
}

void Bench::print(std::string_view text) {
  has_printed_ = true;
  console_.print(text);
}

void Bench::note(std::string_view what, std::string_view text) {
  console_.print(note_line(what, text));
}

std::string note_line(std::string_view what, std::string_view text) {
  return fmt::format("#   {:<12}  {}\n", what, text);
}

void Bench::throw_if_interrupted() const {
  if (!is_interrupted()) return;
  throw Error("KB-S001", ExitCode::interrupted,
              fmt::format("interrupted after {} rows", rows_.size()));
}

EngineStatistics Bench::statistics() const {
  const std::vector<EngineStatistics>& all = contexts_.statistics();
  if (all.size() == 1) return all.front();
  EngineStatistics sum{.system_count = all.size()};
  for (const EngineStatistics& one : all) {
    sum.simulated += one.simulated;
    sum.events += one.events;
    sum.fingerprint = (sum.fingerprint ^ one.fingerprint) * 0x9e3779b97f4a7c15;
    if (one.busiest.kernel_time > sum.busiest.kernel_time) sum.busiest = one.busiest;
  }
  return sum;
}

}  // namespace kernbench::benches
