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

}  // namespace kernbench::sim
