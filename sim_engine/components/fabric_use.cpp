// When links are busy and what they carry, where the run is profiled.

#include <fmt/format.h>

#include "sim_engine/components/fabric.h"
#include "sim_engine/components/work_log.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::sim {

void Fabric::note_use(UseOverTime& use, const Link& link, const Visit& visit) const {
  const auto id = static_cast<LinkId>(&link - links_.data());
  const UnitClass unit_class = routing_.find_class(id);
  if (unit_class != UnitClass::link && unit_class != UnitClass::ucie) return;
  if (visit.counts) use.add(id, visit.start, visit.busy);
}

// Links that take no time carry the bytes too.
void Fabric::note_work(const Path& path, Bytes bytes) {
  for (const LinkId link : path.links) {
    if (const auto unit = routing_.find_energy_unit(link)) work_->add(*unit, engine_.now(), bytes);
  }
}

void Fabric::keep_use_over_time() {
  if (use_ == nullptr) use_ = std::make_unique<UseOverTime>(links_.size());
}

std::unique_ptr<const UseOverTime> Fabric::use_over_time() const {
  if (use_ == nullptr) return nullptr;
  auto result = std::make_unique<UseOverTime>(*use_);
  for (const Link& link : links_) {
    for (const Visit* visit = link.first; visit != nullptr; visit = visit->next) {
      if (visit->is_booked && visit->arrival <= engine_.now()) note_use(*result, link, *visit);
    }
  }
  return result;
}

void Fabric::record(LinkId link, Time start, Time busy, Bytes bytes) {
  const auto track = trace_->track(routing_.sip_of(link), routing_.name(link));
  trace_->span(track, trace_->label(fmt::format("{} B", bytes), bytes), start, start + busy);
}

// Splits the time until the last byte lands into its causes: links that others use, latencies,
// bytes.
CauseLog::Id Fabric::cause_of_delivery(const Transfer& transfer) const {
  CauseLog* const causes = engine_.causes();
  if (causes == nullptr) [[likely]]
    return {};
  const Path& path = *transfer.path;
  const Time landed = transfer.arrivals[path.hops.size()].tail;
  if (path.is_of_launch) return causes->add(transfer.cause, landed, Cause::launch, path.slowest);
  // When it could have been sent; a slow link's bytes are its own.
  const Time alone = landed - path.time_of(transfer.bytes) - transfer.slowed;
  CauseLog::Id id = causes->add(transfer.cause, alone, Cause::queue, path.slowest);
  id = causes->add(id, alone + path.hbm_latency, Cause::hbm, path.slowest);
  id = causes->add(id, alone + path.latency, Cause::latency, path.slowest);
  const bool is_slowed = transfer.slowed > Time{0};
  if (is_slowed)
    id = causes->add(id, alone + path.latency + transfer.slowed, Cause::bytes, transfer.slow_link);
  return causes->add(id, landed, path.is_hbm_bound ? Cause::hbm : Cause::bytes, path.slowest);
}

// A head waits where it leaves a link later than its arrival and the latency ask for.
Fabric::Waiting Fabric::waiting_of_delivered() const {
  const Path& path = *delivered_->path;
  const std::vector<Arrival>& arrivals = delivered_->arrivals;
  const Time all = arrivals[path.hops.size()].head - arrivals[0].head - path.latency;
  if (path.hbm_hop < 0 || all == Time{0}) return {all, Time{0}};
  const auto hop = static_cast<std::size_t>(path.hbm_hop);
  const Time latency = links_[path.hops[hop]].spec.latency;
  const Time hbm = arrivals[hop + 1].head - arrivals[hop].head - latency;
  return {all - hbm, hbm};
}

}  // namespace kernbench::sim
