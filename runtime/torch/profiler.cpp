#include "runtime/torch/profiler.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "runtime/profiler/kineto.h"
#include "runtime/profiler/written_file.h"
#include "runtime/simulation/call_site.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::profiler {

namespace {

using runtime::RunLog;
using runtime::RunSpan;

RunLog::Id add_span(runtime::Simulation& simulation, RunSpan::Kind kind, std::string_view name) {
  RunLog* const log = simulation.run_log();
  if (log == nullptr) return RunLog::kNone;
  const runtime::FiberLocal& caller = simulation.local();
  RunSpan span{.kind = kind,
               .rank = caller.kind == runtime::FiberLocal::Kind::unbound ? -1 : caller.rank,
               .device = caller.device,
               .name = std::string(name)};
  span.issued = span.start = simulation.now();
  return log->add(std::move(span));
}

}  // namespace

record_function::record_function(RuntimeContext& torch, std::string_view name,
                                 std::source_location at)
    : simulation_(simulation_of(torch)), span_(add_span(simulation_, RunSpan::Kind::scope, name)) {
  if (span_ == RunLog::kNone) return;
  RunLog& log = *simulation_.run_log();
  log.at(span_).where = runtime::call_site(at);
  log.open_scope(log.at(span_).rank, span_);
}

record_function::~record_function() {
  if (span_ == RunLog::kNone) return;
  RunLog& log = *simulation_.run_log();
  log.at(span_).end = simulation_.now();
  log.close_scope(log.at(span_).rank);
}

void mark(RuntimeContext& torch, std::string_view name) {
  runtime::Simulation& simulation = simulation_of(torch);
  const RunLog::Id span = add_span(simulation, RunSpan::Kind::mark, name);
  if (span != RunLog::kNone) simulation.run_log()->at(span).end = simulation.now();
}

void timed(RuntimeContext& torch, std::string_view name, Time from, Time to) {
  simulation_of(torch).add_timed_part(std::string(name), from, to);
}

profile::profile(RuntimeContext& torch) : torch_(torch) {
  start();
}

void profile::start() {
  runtime::synchronize(simulation_of(torch_));
  simulation_of(torch_).keep_run_log();
  runtime::log_held_memory(simulation_of(torch_));
  start_ = simulation_of(torch_).now();
  stopped_.reset();
}

void profile::stop() {
  stopped_.reset();
  stopped_ = std::make_shared<const Profile>(result());
}

void profile::step() {
  mark(torch_, fmt::format("ProfilerStep#{}", steps_++));
}

Profile profile::result() const {
  if (stopped_) return *stopped_;
  runtime::synchronize(simulation_of(torch_));
  return runtime::make_profile(simulation_of(torch_), start_);
}

KeyAverages profile::key_averages() const {
  return KeyAverages(std::make_shared<const Profile>(result()));
}

std::string profile::summary() const {
  return runtime::summary(result());
}

std::string profile::explain() const {
  return runtime::explain(result());
}

void profile::export_chrome_trace(const std::string& path) const {
  torch_.engine().write_trace(path);
}

void profile::export_kineto_traces(const std::string& folder) const {
  runtime::synchronize(simulation_of(torch_));
  const std::vector<std::string> traces = runtime::kineto_traces(simulation_of(torch_));
  std::error_code ignored;  // what is wrong with the folder, the first file says
  std::filesystem::create_directories(folder, ignored);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    runtime::write_file(std::filesystem::path(folder) / runtime::kineto_file_name(i), traces[i]);
  }
  runtime::remove_stale_kineto_files(folder, traces.size());
}

}  // namespace kernbench::profiler
