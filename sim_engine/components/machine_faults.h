// The faults of a machine, by the parts that they are of, and what they have done so far.
//
// Models:  a link at a share of its bandwidth, PE_GEMM and PE_MATH at a share of their clocks, in
//          stretches of time: what is under way at their ends is as much slower as it lies in them.
//          A link that is dead loses what is on it.  Noise multiplies the time that a user's kernel
//          computes, by one factor for all PEs of a rank's launch; several multiply it.
// Not modelled: ways around a dead link; retries; PE_CPU, PE_DMA and the host at another pace.
// Cost:    nothing where a machine has no faults; with faults of links, messages enter each link of
//          their way in an event (Fabric::step_through_links()).

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim_engine/components/command.h"
#include "sim_engine/components/ipcq_message.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/faults/fault.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim {

// A stretch of time in which a unit has a share of its rate.
struct SlowStretch {
  Time from{0};
  Time to{0};
  Share share = {};
  std::size_t fault = 0;  // its number
};

// The time that work takes which begins at `start` and takes `alone` at the full rate.  Where
// stretches overlap, the least share counts.  Rounded up.
Time slowed_time(Time start, Time alone, const std::vector<SlowStretch>& stretches);

// Throws ConfigError KB-Y051 for a fault that names no part of the machine.
void check_faults(const Topology& topology);

class MachineFaults {
 public:
  // Returns the faults of a machine; null if it has none.  Throws ConfigError KB-Y051 for one that
  // names no part of it, with the nearest name.
  static std::unique_ptr<MachineFaults> make(const Topology& topology, const Routing& routing);

  bool has_links() const { return !links_.empty(); }
  bool has_link(LinkId link) const { return links_.contains(link); }
  // The time for which a transfer that begins at `start` occupies a link, and `alone` without
  // faults.
  Time occupied_time(LinkId link, Time start, Time alone) const;
  // Notes a transfer that occupies a link with a fault; returns true if the link loses it.
  bool pass(LinkId link, const Path& path, Bytes bytes, Time start, Time alone);

  // The time that an operation takes on a PE's units.
  Time computing_time(const PeLocation& pe, bool is_of_collective, Time start, Time alone);
  // A user's kernel begins on a PE: its noise is drawn anew.
  void begin_kernel(const PeLocation& pe);

  // How much later a rank's worker begins.
  Time start_delay(int rank);
  // When a rank dies; nullopt if it does not.
  std::optional<Time> find_death(int rank) const;
  // When the other ranks know of it; nullopt: never.
  std::optional<Time> find_detection(int rank) const;
  // Notes the deaths that have come by `now`, each once.
  void note_deaths(Time now);

  // Notes a message that arrives, and may flip a bit of it.  Returns false if it is lost instead.
  bool deliver(const PeLocation& from, const PeLocation& to, IpcqMessage& message, Time now,
               MemoryStore& memory);
  // Notes what a kernel stores, and may flip a bit of it.
  Value stored(const PeLocation& pe, const Value& value, Time now, MemoryStore& memory);

  // Returns what each fault has done, in the order in which faults were given.
  const std::vector<FaultEffect>& effects() const { return effects_; }

 private:
  struct Noise {
    std::int64_t factor = 0;  // in millionths
    std::size_t fault = 0;
  };
  struct PeState {
    std::vector<SlowStretch> stretches;
    std::int64_t kernels = 0;   // of users
    std::vector<Noise> noises;  // of the present one
  };
  struct RankState {
    std::int64_t messages = 0;
    std::int64_t results = 0;
    std::map<std::uint64_t, std::int64_t> collectives = {};  // their numbers, by operation
    std::map<std::int64_t, std::int64_t> messages_of = {};   // by number of collective
  };

  explicit MachineFaults(const Topology& topology) : topology_(topology) {}

  void add(std::size_t number, const Routing& routing);
  void add_link(std::size_t number, const Routing& routing);
  void add_pes(std::size_t number);
  void check_rank(std::size_t number) const;
  [[noreturn]] void refuse(const Fault& fault, std::string_view what, const std::string& name,
                           const std::vector<std::string>& names) const;
  const Fault& fault(std::size_t number) const { return topology_.faults[number]; }
  PeState& state_of(const PeLocation& pe) { return pes_[pe_number(topology_, pe)]; }
  void note(std::size_t number, Time now, Time added, std::string detail);
  Value flip(std::size_t number, const Value& value, Time now, MemoryStore& memory,
             const std::string& where);

  const Topology& topology_;
  std::map<LinkId, std::vector<SlowStretch>> links_;  // a share of 0: dead
  std::vector<PeState> pes_;
  bool has_noise_ = false;
  std::map<int, RankState> ranks_;
  std::vector<FaultEffect> effects_;
};

}  // namespace kernbench::sim
