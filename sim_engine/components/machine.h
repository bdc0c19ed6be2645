// The modelled system in one piece: the engine, everything that it moves, and the data.

#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "sim_engine/components/ipcq_ends.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/core/engine.h"
#include "sim_engine/topology/folding.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/trace/command_log.h"
#include "sim_engine/values/access_tracker.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim {

class Fabric;
class HbmAllocator;
class IpcqChannel;
class Launcher;
class MachineFaults;
class ProcessingElement;
class SwitchSum;
class TraceRecorder;
class WorkLog;

struct MachineOptions {
  bool data = true;              // keep what is needed to evaluate values
  bool trace = false;            // record spans
  bool profile = false;          // record what explains the time (ADR-0203)
  bool energy = false;           // count what its energy is made of (ADR-0268)
  std::size_t op_log_limit = 0;  // the op log keeps this many of the latest records; 0: all
  std::optional<std::uint64_t> shuffle_ties = std::nullopt;  // the seed of Engine::shuffle_ties()
  // The period of SIPs that do the same at the same times: one is simulated for them (Folding).  0:
  // each is simulated.
  int fold = 0;
  // Operators choose their tiles, and so the order in which these add up, for a quarter of the TCM,
  // so that it is the same whatever queues and collectives hold.
  bool fixed_tiles = false;
};

class Machine {
 public:
  // REQUIRES: options.fold has no obstacle, and comes without data, trace, profile, energy and
  // shuffled ties
  Machine(const Topology& topology, const MachineOptions& options);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const Topology& topology() const { return topology_; }
  Engine& engine() { return engine_; }
  const Engine& engine() const { return engine_; }
  Fabric& fabric();
  const Fabric& fabric() const;
  MemoryStore& memory() { return memory_; }
  AccessTracker& accesses() { return accesses_; }
  CommandLog& op_log() { return op_log_; }
  const CommandLog& op_log() const { return op_log_; }
  Launcher& launcher();
  TraceRecorder* trace();  // null unless asked for
  const TraceRecorder* trace() const;

  const Folding& folding() const { return folding_; }
  // Returns two PEs where the shift that takes the sender's SIP to its first one takes them.
  std::pair<PeLocation, PeLocation> shift(PeLocation from, PeLocation to) const;

  HbmAllocator& hbm(int sip);

  // Returns the PE that is simulated for this one.
  ProcessingElement& pe(const PeLocation& at);
  // The name of the place where a cause takes its time: "sip0.link.east", "sip0.cube0.pe3"; "" for
  // causes without one.
  std::string place_name(Cause cause, std::uint32_t place) const;
  // The class of that place, if it is a link.
  std::optional<UnitClass> find_link_class(Cause cause, std::uint32_t place) const;
  const ProcessingElement& pe(const PeLocation& at) const {
    return const_cast<Machine*>(this)->pe(at);
  }

  // The unit that has served kernels for longest so far, and how long any kernel ran.  Host copies
  // and launches do not count.  Units are links, ports of memories, and the units of PEs
  // (ProcessingElement::unit_uses()); if several are equal, the first in this order, PEs by their
  // number.
  UnitUse busiest_unit() const;
  // All units by their classes, in the order of UnitClass.
  std::array<UnitClassUse, kUnitClassCount> unit_classes() const;

  // Returns the bytes that PE_GEMM and PE_MATH of all PEs have read from TCM and written to it,
  // counted when a command reaches them.
  ComputeTraffic compute_traffic() const;

  // Counts from now on what units do, if the topology has an energy of any.
  void count_work();
  // The work that has been counted; null if none is.
  const WorkLog* work() const;

  // The topology's faults; null if it has none.
  MachineFaults* faults();
  const MachineFaults* faults() const;

  // Makes a queue and enters it in both PEs' tables.  Its slots occupy the memory that they lie in
  // until disconnect_all(), unless they are reserved already (IpcqParams).  Throws DeviceError
  // KB-M010 if they do not fit.
  // REQUIRES: neither end is connected at its port
  IpcqChannel& connect(const IpcqEnds& ends, const IpcqParams& params);

  // Sets bytes of the SRAM of a PE's cube aside for queues whose slots are reserved, until
  // disconnect_all().  Returns false, and takes nothing, if they are not free.
  bool reserve_for_queues(const PeLocation& receiver, Bytes bytes);

  // Takes all queues away.  Credits may still be flying back.  REQUIRES: no kernel runs
  void disconnect_all();
  // Takes one queue away.  REQUIRES: it has no slots, or they are reserved; nothing is under way in
  // it, and no kernel that uses it runs
  void disconnect(IpcqChannel& channel);

  // Joins PEs, one of each SIP, to a new unit of the switch that adds up.
  // REQUIRES: the topology's switch can add up
  SwitchSum& connect_switch_sum(std::span<const PeLocation> members, const IpcqParams& params);
  // Takes it and its queues away, if disconnect_all() has not.  REQUIRES: as for a queue
  void disconnect(SwitchSum& sum);

  std::list<IpcqChannel>& channels();
  const std::list<IpcqChannel>& channels() const;

  // Drops whatever is under way, and puts units and queues back into their idle state; time, values
  // and the log stay.  For the end of a run that failed: afterwards the machine works again.
  // REQUIRES: every KernelRun is gone
  void abandon_work_under_way();

 private:
  void leave_tables(const IpcqChannel& channel);
  IpcqChannel& add_channel(const IpcqEnds& ends, const IpcqParams& params);

  // What moves data and computes, so that users of a machine do not compile it.
  struct Parts;

  const Topology topology_;
  const Folding folding_;
  Engine engine_;
  MemoryStore memory_;
  AccessTracker accesses_;
  CommandLog op_log_;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace kernbench::sim
