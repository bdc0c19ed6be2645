// How a kernel reaches the PEs of a SIP, and how the host learns that it has ended.
//
// Models:  host link -> IO_CPU (`dispatch` per cube, one after the other) -> the fabric -> each
//          M_CPU (`dispatch` per PE, one after the other) -> the PE's NoC port.  When the last PE
//          of a cube has finished its M_CPU tells the IO_CPU, and when the last cube has, the host
//          is told.
// Timing:  launch and completion messages are 64 bytes and travel like all others.  The host's leg
//          of a launch that was queued is no message: it has come before, and takes host_leg().

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim_engine/components/fabric.h"
#include "sim_engine/components/fifo_server.h"
#include "sim_engine/core/engine.h"

namespace kernbench::sim {

// The time of a launch from the host whose kernels take none, if nothing else is under way: the
// longest way to PE `pes` - 1 of one of the first `cubes` cubes, and back.
Time launch_time(const Topology& topology, int cubes, int pes);

class Launcher {
 public:
  Launcher(Engine& engine, Fabric& fabric, const Topology& topology);
  ~Launcher();

  // A kernel on some PEs of one SIP, from launch() until the host knows that it is done.
  class Launch;

  // `start` is called for each PE with its place in `pes` as the argument; `done` when the host
  // knows that all have finished.  `pes` is copied; the launch is valid until its last PE has
  // reported.
  // REQUIRES: pes is not empty, of one SIP, and ordered by cube
  Launch& launch(std::span<const PeLocation> pes, const Event& start, const Event& done);
  // Does the same for a launch that waits at the IO_CPU already: it begins there now, and `done` is
  // called when the IO_CPU knows that all have finished.
  Launch& launch_at_io_cpu(std::span<const PeLocation> pes, const Event& start, const Event& done);

  // The time of a message between the host and a SIP's IO_CPU, without contention.
  Time host_leg(int sip);

  // The kernel on pes[index] of a launch has ended now.  Call it once per index.
  void kernel_finished(Launch& launch, std::size_t index);

  // Drops launches under way, after a run that failed.  REQUIRES: their events are dropped
  void reset();

 private:
  struct CubeState;
  struct PeState;

  Launch& take(std::span<const PeLocation> pes, const Event& start, const Event& done);
  void send(const Path& path, const Event& delivered);
  void at_io_cpu(Launch& launch);
  void leave_io_cpu(CubeState& cube);
  void at_m_cpu(CubeState& cube);
  void leave_m_cpu(PeState& pe);
  void at_pe(PeState& pe);
  void pe_reported(CubeState& cube);
  void cube_reported(Launch& launch);

  Engine& engine_;
  Fabric& fabric_;
  const Topology& topology_;
  std::vector<FifoServer> io_cpus_;  // by SIP
  std::vector<FifoServer> m_cpus_;   // by SIP and cube
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Launch*> free_;
};

}  // namespace kernbench::sim
