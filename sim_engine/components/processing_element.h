// A PE: its scheduler (PE_SCHEDULER) and the units that commands run on.
//
// Models:      PE_SCHEDULER hands a command to its unit a time `dispatch` after it has been issued
//              and its operands are ready.  PE_DMA has three channels (load, store, communication),
//              each in order, `setup` per descriptor; the data then travel the fabric, so that
//              several are under way.  A descriptor may move rows that lie a pitch apart; it takes
//              as long as for the same number of contiguous bytes.  PE_MMU adds its latency per
//              page that a load or store touches.  PE_MATH and PE_GEMM do one operation at a time
//              each (math_timing.h, gemm_array.h).  PE_IPCQ takes the message of a posted receive
//              out of its slot as soon as it is there, without the PE_CPU, and adds its latency to
//              each push and pop.
// Not modeled: a limit on commands in flight, descriptor fetch, TLB misses, bank conflicts.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim_engine/components/command.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/fifo_server.h"
#include "sim_engine/components/pe_ipcq.h"
#include "sim_engine/core/engine.h"
#include "sim_engine/trace/op_log.h"

namespace kernbench::sim {

class TraceRecorder;

// What all PEs of a machine share.
struct PeServices {
  const Topology& topology;
  Engine& engine;
  Fabric& fabric;
  MemoryStore& memory;
  AccessTracker& accesses;
  OpLog& op_log;
  TraceRecorder* trace;  // may be null
  TilePool tiles;
  CommandPool commands;
  std::uint32_t next_arrow = 0;
  std::uint64_t kernel_count = 0;  // kernels started so far

  // For kernel_time(): the time in which at least one kernel ran.
  int running_kernels = 0;
  Time running_since{0};
  Time ran_before{0};
  void begin_kernel() {
    if (running_kernels++ == 0) running_since = engine.now();
  }
  void end_kernel() {
    ran_before = kernel_time(engine.now());
    --running_kernels;
    running_since = engine.now();
  }
  Time kernel_time(Time now) const {
    return running_kernels == 0 ? ran_before : ran_before + (now - running_since);
  }
};

class ProcessingElement {
 public:
  ProcessingElement(PeServices& services, const PeLocation& location, std::uint32_t number)
      : services_(services), location_(location), number_(number) {}

  const PeLocation& location() const { return location_; }
  PeServices& services() { return services_; }
  const PeServices& services() const { return services_; }
  PeIpcq& ipcq() { return ipcq_; }
  const PeIpcq& ipcq() const { return ipcq_; }

  // The TCM as scratch: its capacity without what queues hold for good, and the bytes that values
  // hold now.
  Bytes scratch_capacity() const { return services_.topology.pe.tcm.capacity - queue_bytes_; }
  Bytes& scratch_in_use() { return scratch_in_use_; }
  Bytes scratch_in_use() const { return scratch_in_use_; }
  void set_queue_bytes(Bytes bytes) { queue_bytes_ = bytes; }

  // A PE runs one kernel of a user's at a time, in the order in which they reach it: `begin` is
  // called when it is this one's turn, at once if the PE is free.  The kernel that was called must
  // release() the PE.  Kernels of collectives do not claim it: the PE_CPU has contexts of its own
  // for them, any number, and the units serve all kernels in the order of their commands
  // (ADR-0120).
  void claim(const Event& begin);
  void release();

  // Counts the kernels that run, of users and of collectives.
  void kernel_began() { ++kernel_count_; }
  void kernel_ended();
  int kernel_count() const { return kernel_count_; }

  // Calls `event` once when scratch may have become free, unless it is forgotten before: at the end
  // of a command or of a kernel, or when a kernel lets go of a value.
  void wake_on_scratch(const Event& event) { scratch_waiters_.push_back(event); }
  void forget_scratch_waiter(const Event& event);
  void scratch_may_be_free() {
    if (!scratch_waiters_.empty()) wake_scratch_waiters();
  }

  // Takes a command whose fields are filled in.  It runs once `issued` has come and its operands
  // and `hazards` (accesses that it must not overtake) are ready, and then makes its result ready.
  void issue(Command& command, std::span<const Tile> hazards);

  // All parts of a composite command have ended.
  void end_composite(Command& command);

  // PE_IPCQ: the message of a post is in its slot (receive) or in the post's tile
  // (receive_in_place).  `post` must not be used afterwards.
  void receive(IpcqChannel& channel, IpcqPost& post, IpcqMessage message);
  void receive_in_place(IpcqChannel& channel, IpcqPost& post, IpcqMessage message);

  // Adds time that the PE_CPU spends on issuing commands.
  void count_cpu(Time busy) { cpu_busy_ += busy; }

  // The unit of this PE that has been busy for longest, and for how long: cpu, load, store,
  // communication (the DMA's channels, while they set up), math or gemm; the first if several are
  // equal.
  std::pair<std::string_view, Time> busiest_unit() const;

  // Drops reservations, claims and waiters, after a run that failed.  Scratch comes back with the
  // tiles.
  void reset();

 private:
  enum Channel : std::size_t { kLoad, kStore, kCommunication, kChannelCount };

  void wake_scratch_waiters();
  void wait_for(Command& command, const Tile& operand);
  void operands_ready(Command& command);
  void make_ready(const Tile& tile);
  void dispatch(std::uint64_t command);
  void submit_dma(Channel channel, Command& command, Time extra);
  void begin_access(Command& command);
  void end_access(const Command& command);
  void start_math(Command& command);
  void start_gemm(Command& command);
  void occupy(FifoServer& unit, Command& command, Time duration);
  void finish(std::uint64_t command);
  void take_effect(Command& command);
  void depart(Command& command);
  static IpcqMessage message_of(const Command& command);
  bool accept(const IpcqChannel& channel, IpcqPost& post, const Tile& tile, IpcqMessage& message);
  void take_out(IpcqChannel& channel, KernelRun& run, Time issued, const Tile& tile,
                std::uint32_t arrow);
  Time translation_time(const Command& command) const;
  const Path& path_of(const Command& command);
  const Path& load_path(const PeLocation& home);
  const Path& store_path(const PeLocation& home);
  void record(const Command& command);

  PeServices& services_;
  const PeLocation location_;
  const std::uint32_t number_;
  PeIpcq ipcq_;
  std::array<FifoServer, kChannelCount> dma_;
  FifoServer math_;
  FifoServer gemm_;
  Time cpu_busy_{0};
  // The paths from and to the PE's own slice of the HBM, cached since most loads and stores take
  // them.
  const Path* own_load_path_ = nullptr;
  const Path* own_store_path_ = nullptr;
  bool is_claimed_ = false;
  std::deque<Event> claims_;  // kernels that wait for their turn
  int kernel_count_ = 0;
  std::vector<Event> scratch_waiters_;
  Bytes queue_bytes_ = 0;
  Bytes scratch_in_use_ = 0;
};

}  // namespace kernbench::sim
