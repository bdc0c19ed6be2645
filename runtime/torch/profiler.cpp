#include "runtime/torch/profiler.h"

#include <utility>

#include "runtime/simulation/call_site.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
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
    : simulation_(torch.simulation()), span_(add_span(simulation_, RunSpan::Kind::scope, name)) {
  if (span_ != RunLog::kNone) simulation_.run_log()->at(span_).where = runtime::call_site(at);
}

record_function::~record_function() {
  if (span_ != RunLog::kNone) simulation_.run_log()->at(span_).end = simulation_.now();
}

void mark(RuntimeContext& torch, std::string_view name) {
  const RunLog::Id span = add_span(torch.simulation(), RunSpan::Kind::mark, name);
  if (span != RunLog::kNone) torch.simulation().run_log()->at(span).end = torch.simulation().now();
}

profile::profile(RuntimeContext& torch) : torch_(torch) {
  runtime::synchronize(torch.simulation());
  torch.simulation().keep_run_log();
  start_ = runtime::profile_start(torch.simulation());
}

Profile profile::result() const {
  runtime::synchronize(torch_.simulation());
  return runtime::profile_of(torch_.simulation(), start_);
}

void profile::export_chrome_trace(const std::string& path) const {
  torch_.engine().write_trace(path);
}

}  // namespace kernbench::profiler
