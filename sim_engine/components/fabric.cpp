#include "sim_engine/components/fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/check.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::sim {

Fabric::Fabric(Engine& engine, const Topology& topology, TraceRecorder* trace)
    : engine_(engine), routing_(topology), trace_(trace), links_(routing_.link_count()) {
  for (LinkId link = 0; link < routing_.link_count(); ++link)
    links_[link].spec = routing_.spec(link);
}

const Path& Fabric::path(const Endpoint& from, const Endpoint& to) {
  const std::uint64_t key = routing_.key_of(from) << 32 | routing_.key_of(to);
  auto& path = paths_[key];
  if (!path) path = std::make_unique<const Path>(routing_.route(from, to));
  return *path;
}

void Fabric::send(const Path& path, Bytes bytes, const Event& delivered, Time delay) {
  KB_CHECK(bytes >= 0, "{} bytes", bytes);
  if (path.hops.empty()) {
    engine_.schedule(delay, delivered);
    return;
  }
  std::uint32_t index = free_transfer_;
  if (index != kNone) {
    free_transfer_ = transfers_[index].next_free;
  } else {
    index = static_cast<std::uint32_t>(transfers_.size());
    transfers_.emplace_back();
  }
  transfers_[index] = {&path, 0, kNone, bytes, engine_.now() + delay, delivered};
  if (delay > Time{0}) {
    engine_.schedule<&Fabric::enter_link>(delay, this, index);
  } else {
    enter_link(index);
  }
}

// The head of a transfer has reached the link of its hop.
void Fabric::enter_link(std::uint64_t index) {
  Transfer& transfer = transfers_[index];
  const LinkId id = transfer.path->hops[transfer.hop];
  Link& link = links_[id];
  const Time busy = transfer_time(transfer.bytes, link.spec.bandwidth);
  const Time start = link.server.reserve(engine_.now(), busy, transfer.path->is_of_kernels);
  link.carried += transfer.bytes;
  if (trace_ != nullptr && busy > Time{0}) record(id, start, busy, transfer.bytes);

  transfer.tail = std::max(start + busy, transfer.tail) + link.spec.latency;
  if (++transfer.hop < transfer.path->hops.size()) {
    engine_.schedule<&Fabric::enter_link>(start + link.spec.latency - engine_.now(), this, index);
    return;
  }
  engine_.schedule(transfer.tail - engine_.now(), transfer.delivered);
  transfer.next_free = free_transfer_;
  free_transfer_ = static_cast<std::uint32_t>(index);
}

void Fabric::record(LinkId link, Time start, Time busy, Bytes bytes) {
  const auto track = trace_->track(routing_.sip_of(link), routing_.name(link));
  trace_->span(track, trace_->label(fmt::format("{} B", bytes)), start, start + busy);
}

UnitUse Fabric::busiest_link() const {
  LinkId busiest = 0;
  Time longest{0};
  for (LinkId link = 0; link < routing_.link_count(); ++link) {
    const Time busy = links_[link].server.busy(engine_.now());
    if (busy <= longest) continue;
    busiest = link;
    longest = busy;
  }
  if (longest == Time{0}) return {};
  return {routing_.name(busiest), longest, Time{0}};
}

void Fabric::reset() {
  transfers_.clear();
  free_transfer_ = kNone;
  for (Link& link : links_) link.server.release(engine_.now());
}

}  // namespace kernbench::sim
