// Moves messages over the links.
//
// Models:      cut-through.  The head takes each link's latency; the body occupies each directed
//              link for bytes / bandwidth, first come first served, from the moment the head
//              enters it.
// Not modeled: buffers that fill up, packets of a message that interleave with another's.
// Timing:      link i begins at s_i = max(head arrives, link free), is busy for b_i = bytes / bw_i;
//              the head reaches link i+1 at s_i + latency_i; the tail leaves link i at
//              e_i = max(s_i + b_i, e_(i-1) + latency_(i-1)).  Delivered at e_n + latency_n.
//              Unloaded that is the sum of the latencies plus bytes over the slowest link
//              (ADR-0033).

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sim_engine/components/fifo_server.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/components/unit_use.h"
#include "sim_engine/core/engine.h"

namespace kernbench::sim {

class TraceRecorder;

class Fabric {
 public:
  Fabric(Engine& engine, const Topology& topology, TraceRecorder* trace);

  const Routing& routing() const { return routing_; }

  // The way between two endpoints; computed once, valid as long as the fabric.
  const Path& path(const Endpoint& from, const Endpoint& to);

  // Sends `bytes` along `path` from now + delay on.  `delivered` is called when the last byte has
  // landed.
  // REQUIRES: bytes >= 0; path outlives the transfer
  void send(const Path& path, Bytes bytes, const Event& delivered, Time delay = Time{0});

  // Bytes that have entered a link so far.
  Bytes carried(LinkId link) const { return links_[link].carried; }

  // The link that has been busy with kernels' data for longest so far, named by Routing::name();
  // the first if several are equal.  Its kernel_time is not set.
  UnitUse busiest_link() const;

  // Drops the transfers under way and the reservations beyond now (see Engine::clear()).
  void reset();

 private:
  struct Link {
    FifoServer server;
    Bytes carried = 0;
    LinkSpec spec;
  };
  struct Transfer {
    const Path* path = nullptr;
    std::uint32_t hop = 0;
    std::uint32_t next_free = 0;
    Bytes bytes = 0;
    Time tail{0};  // when the last byte reaches the link of `hop`
    Event delivered;
  };

  void enter_link(std::uint64_t transfer);
  void record(LinkId link, Time start, Time busy, Bytes bytes);

  static constexpr std::uint32_t kNone = 0xffffffff;

  Engine& engine_;
  const Routing routing_;
  TraceRecorder* const trace_;
  std::vector<Link> links_;
  std::vector<Transfer> transfers_;
  std::uint32_t free_transfer_ = kNone;
  std::unordered_map<std::uint64_t, std::unique_ptr<const Path>> paths_;  // never iterated
};

}  // namespace kernbench::sim
