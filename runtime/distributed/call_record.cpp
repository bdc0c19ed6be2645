#include "runtime/distributed/call_record.h"

#include <fmt/format.h>

#include "runtime/simulation/call_site.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

namespace {

runtime::RunSpan make_span(const runtime::FlightEvent& event, int rank, int device) {
  using Kind = runtime::RunSpan::Kind;
  return {.kind = event.sequence >= 0 ? Kind::collective : Kind::message,
          .rank = rank,
          .device = device,
          .name = std::string(event.function),
          .where = runtime::call_site(event.location),
          .issued = event.issued,
          .start = event.issued,
          .bytes = event.has_tensor ? event.shape.numel() * size_of(event.dtype) : 0,
          .group = event.group,
          .sequence = event.sequence,
          .peer = event.peer};
}

}  // namespace

CallRecord::CallRecord(runtime::Simulation& simulation, const runtime::FlightEvent& event,
                       Describe describe)
    : simulation_(&simulation), event_(event), rank_(simulation.local().rank) {
  event_.issued = simulation.now();
  id_ = simulation.flight_recorder().issue(rank_, event_);
  simulation.local().last_call.set(event_.function.data(), event_.location.file_name(),
                                   event_.location.line(), event_.sequence);
  if (runtime::RunLog* const run_log = simulation.run_log()) {
    runtime::RunSpan span = make_span(event_, rank_, simulation.local().device);
    span.scope = run_log->find_scope(rank_);
    span.part = run_log->part_of(rank_);
    span.module = run_log->module_of(rank_).path;
    span_ = run_log->add(std::move(span));
  }
  log(describe, "issued");
}

runtime::RunSpan* CallRecord::span() const {
  runtime::RunLog* const run_log = simulation_->run_log();
  return run_log == nullptr ? nullptr : &run_log->at(span_);
}

void CallRecord::started(Describe describe) const {
  if (runtime::RunSpan* const logged = span()) logged->start = simulation_->now();
  simulation_->flight_recorder().start(rank_, id_, simulation_->now());
  log(describe, "started");
}

void CallRecord::runs_by(const Communicator::RunsBy& by) const {
  if (by.algorithm.empty()) return;
  simulation_->note_algorithm({.collective = event_.function,
                               .algorithm = by.algorithm,
                               .is_configured = by.is_configured});
  if (by.rule != 0) simulation_->note_rule(by.rule);
  simulation_->flight_recorder().runs_by(rank_, id_, by.algorithm);
  if (runtime::RunSpan* const logged = span()) logged->algorithm = by.algorithm;
}

void CallRecord::is_flow(std::uint64_t number) const {
  if (runtime::RunSpan* const logged = span()) logged->flow = number;
}

void CallRecord::ended() const {
  runtime::RunSpan* const logged = span();
  if (logged != nullptr && logged->end == Time::max()) logged->end = simulation_->now();
}

void CallRecord::completed(Describe describe) const {
  simulation_->flight_recorder().complete(rank_, id_, simulation_->now());
  ended();
  log(describe, "completed");
}

void CallRecord::log(Describe describe, std::string_view what) const {
  if (!describe) return;
  simulation_->log(runtime::LogTopic::distributed,
                   [&] { return fmt::format("{} {}", describe(), what); });
}

}  // namespace kernbench::distributed
