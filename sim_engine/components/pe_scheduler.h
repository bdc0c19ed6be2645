// PE_SCHEDULER and the units that commands run on.
//
// Models:      PE_SCHEDULER hands a command to its unit a time `dispatch` after it has been issued
//              and its operands are ready.  PE_DMA has five channels (load, store, communication,
//              and loads and stores of collectives), each in order, `setup` per descriptor; the
//              data then travel the fabric, so that several are under way.  A descriptor may move
//              rows that lie a pitch apart; it takes as long as for the same number of contiguous
//              bytes.  PE_MMU adds its latency per page that a load or store touches.  PE_MATH and
//              PE_GEMM do one operation at a time each (math_timing.h, gemm_array.h).  PE_IPCQ adds
//              its latency to each push and pop.  PE_MATH and PE_GEMM have two ports of TCM each;
//              an operation takes the longest of its cycles and its bytes over either (ADR-0248).
// Not modeled: a limit on commands in flight, descriptor fetch, TLB misses, conflicts of banks, and
//              of the two units at one bank.

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sim_engine/components/command.h"
#include "sim_engine/components/fifo_server.h"
#include "sim_engine/components/ipcq_message.h"
#include "sim_engine/components/pe_services.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/values/value.h"

namespace kernbench::sim {

class PeScheduler {
 public:
  PeScheduler(PeServices& services, const PeLocation& location, std::uint32_t number)
      : services_(services), location_(location), number_(number) {}

  const PeLocation& location() const { return location_; }
  std::uint32_t number() const { return number_; }
  PeServices& services() { return services_; }

  // Takes a command whose fields are filled in.  It runs once `issued` has come and its operands
  // and `hazards` (accesses that it must not overtake) are ready; then it makes its result ready
  // and is completed for its issuer.
  void issue(Command& command, std::span<const Tile> hazards = {});

  // The command ends now.  REQUIRES: a composite whose parts have all ended
  void finish(Command& command);

  // A message has landed in `command.result` without the time of a command: records it, and makes
  // the tile ready.
  void finish_receive_in_place(const Command& command);

  // The time for which each unit has been busy: load, store, communication, collective load,
  // collective store (the DMA's channels, while they set up), the ports of TCM of those that
  // compute, math, gemm.
  std::array<PeUnitUse, 11> unit_uses() const;
  // Returns what commands that have reached PE_GEMM and PE_MATH read from TCM and write to it.
  const ComputeTraffic& compute_traffic() const { return compute_traffic_; }

  // Drops reservations, after a run that failed.
  void reset();

 private:
  enum Channel : std::size_t {
    kLoad,
    kStore,
    kCommunication,
    kCollectiveLoad,
    kCollectiveStore,
    kChannelCount
  };

  // PE_MATH or PE_GEMM, with its ports of TCM.  While operations wait for the unit, what is known
  // of its ports' use is too small by up to the gaps between them.
  struct ComputeUnit {
    FifoServer server;
    FifoServer read_port;
    FifoServer write_port;
    void release(Time now);
  };

  void wait_for(Command& command, const Tile& operand);
  void wait_for_parts(Command& command, const Tile& view);
  void operand_ready(Command& command);
  void operands_ready(Command& command);
  void make_ready(const Tile& tile);
  void dispatch(Command& command);
  void depart(Command& command, IpcqChannel& channel);

  void start(Command& command, work::Load& load);
  void start(Command& command, work::Store& store);
  void start(Command& command, const work::Math& math);
  void start(Command& command, const work::Gemm& gemm);
  void start(Command& command, const work::Composite& composite);
  void start(Command& command, const work::Send& send);
  void start(Command& command, const work::CopyTo& copy);
  void start(Command& command, const work::Receive& receive);
  Event end_of_transfer(const Path& path, Command& command);
  void transferred(Command& command);
  void submit_message(Command& command, const IpcqChannel& channel, const Path& path);
  Time reserve_dma(Channel channel, Command& command);
  void load_shared(Command& command, const work::Load& load);
  void ask_for_tile(Command& command);
  void take_tile(Command& command);
  void submit_dma(Channel channel, Command& command, const Path& path, Bytes bytes, Time extra);
  void compute(ComputeUnit& unit, Command& command, Time cycles, const ComputeTraffic& traffic);
  void note_work(EnergyUnit unit, std::int64_t amount);
  CauseLog::Id cause_of_service(Time start, Time end, Cause why) const;
  Time translation_time(const work::HbmAccess& access) const;
  const Path& load_path(const PeLocation& home);
  const Path& store_path(const PeLocation& home);
  const Path& shared_tile_path();
  void begin_access(work::HbmAccess& access, Access kind);
  AccessId begin_access(const HbmPart& part, Access kind, std::uint64_t kernel);
  void end_access(const work::HbmAccess& access);

  void take_effect(const Command& command);
  Time slowed_down(const Command& command, Time start, Time alone);
  bool arrives(const IpcqChannel& channel, IpcqMessage& message);
  Value value_to_store(const Command& command);
  void record(const Command& command);

  PeServices& services_;
  const PeLocation location_;
  const std::uint32_t number_;
  std::array<FifoServer, kChannelCount> dma_;
  ComputeUnit math_;
  ComputeUnit gemm_;
  ComputeTraffic compute_traffic_;
  // The paths from and to the PE's own slice of the HBM, and from its cube's SRAM, cached since
  // most loads and stores take them.
  const Path* own_load_path_ = nullptr;
  const Path* own_store_path_ = nullptr;
  const Path* shared_tile_path_ = nullptr;
};

}  // namespace kernbench::sim
