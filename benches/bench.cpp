#include "benches/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/config_errors.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

std::vector<BenchInfo>& registry() {
  static std::vector<BenchInfo> infos;
  return infos;
}

EngineStatistics statistics_of(const EngineView& engine) {
  return {engine.now(), engine.event_count(), 0, engine.fingerprint()};
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
  options.trace = options.trace || request_.trace;
  Context torch(new RuntimeContext(topology, std::move(options)), Collector{this});
  const std::lock_guard lock(mutex_);
  live_.push_back(torch.get());
  if (interrupted_) torch->simulation().interrupt();
  finished_.reserve(finished_.size() + live_.size());  // the collector must not fail
  traced_.reserve(traced_.size() + live_.size());
  return torch;
}

void Bench::Collector::operator()(RuntimeContext* torch) const {
  {
    const std::lock_guard lock(bench->mutex_);
    std::erase(bench->live_, torch);
    bench->finished_.push_back(statistics_of(torch->engine()));
    if (torch->options().trace) bench->traced_.push_back(torch->shared_simulation());
  }
  delete torch;
}

void Bench::add_row(Row row, bool ok) {
  rows_.push_back(std::move(row));
  ok_ = ok_ && ok;
  throw_if_interrupted();
}

void Bench::add_artifact(std::string_view file_name, std::string content) {
  if (wants_artifacts()) artifacts_.push_back({std::string(file_name), std::move(content)});
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

void Bench::interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  for (RuntimeContext* torch : live_) torch->simulation().interrupt();
}

bool Bench::is_interrupted() const {
  const std::lock_guard lock(mutex_);
  return interrupted_;
}

void Bench::throw_if_interrupted() const {
  if (!is_interrupted()) return;
  throw Error("KB-S001", ExitCode::interrupted,
              fmt::format("interrupted after {} rows", rows_.size()));
}

EngineStatistics Bench::statistics() const {
  if (finished_.size() == 1) return finished_.front();
  EngineStatistics sum;
  for (const EngineStatistics& one : finished_) {
    sum.simulated += one.simulated;
    sum.events += one.events;
    sum.fingerprint = (sum.fingerprint ^ one.fingerprint) * 0x9e3779b97f4a7c15;
  }
  return sum;
}

std::vector<std::string> Bench::traces() const {
  std::vector<std::string> texts;
  for (const auto& simulation : traced_) {
    texts.push_back(simulation->machine().trace()->to_json());
  }
  return texts;
}

}  // namespace kernbench::benches
