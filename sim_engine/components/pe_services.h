// The parts of a machine that all its PEs share.

#pragma once

#include <cstdint>

#include "sim_engine/components/command.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/memory_order.h"
#include "sim_engine/components/shared_tiles.h"
#include "sim_engine/components/tile.h"
#include "sim_engine/components/tile_choices.h"
#include "sim_engine/core/engine.h"
#include "sim_engine/trace/command_log.h"
#include "sim_engine/values/access_tracker.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim {

class MachineFaults;
class TraceRecorder;
class WorkLog;

struct PeServices {
  const Topology& topology;
  Engine& engine;
  Fabric& fabric;
  MemoryStore& memory;
  AccessTracker& accesses;
  CommandLog& op_log;
  TraceRecorder* trace;  // may be null
  SharedTiles shared_tiles;
  TilePool tiles;
  CommandPool commands;
  MemoryOrder memory_order;
  TileChoices tile_choices = {};
  WorkLog* work = nullptr;          // null unless energy is counted
  MachineFaults* faults = nullptr;  // null if there are none
  bool has_fixed_tiles = false;      // MachineOptions::fixed_tiles
  std::uint32_t next_arrow = 0;
  std::uint64_t kernel_count = 0;  // kernels started so far

  // Counts kernels for kernel_time(), the time in which at least one ran.
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

}  // namespace kernbench::sim
