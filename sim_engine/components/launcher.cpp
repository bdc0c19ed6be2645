#include "sim_engine/components/launcher.h"

#include <algorithm>

#include "sim_engine/base/check.h"
#include "sim_engine/components/routing.h"

namespace kernbench::sim {

namespace {

constexpr Bytes kMessageBytes = 64;

}  // namespace

Time launch_time(const Topology& topology, int cubes, int pes) {
  const Routing routing(topology);
  using Kind = Endpoint::Kind;
  const auto there_and_back = [&](const Endpoint& from, const Endpoint& to) {
    return routing.route(from, to).time_of(kMessageBytes) +
           routing.route(to, from).time_of(kMessageBytes);
  };
  const Endpoint io_cpu{Kind::io_cpu, {}};
  Time longest{0};
  for (int cube = 0; cube < cubes; ++cube) {
    const Endpoint m_cpu{Kind::m_cpu, {0, cube, 0}};
    longest =
        std::max(longest, topology.sip.io_cpu_dispatch * (cube + 1) +
                              there_and_back(io_cpu, m_cpu) + topology.cube.m_cpu_dispatch * pes +
                              there_and_back(m_cpu, {Kind::pe_cpu, {0, cube, pes - 1}}));
  }
  return there_and_back({Kind::host, {}}, io_cpu) + longest;
}

struct Launcher::CubeState {
  Launch* launch = nullptr;
  int cube = 0;
  std::size_t first = 0;  // its PEs are pes[first, first + count)
  std::size_t count = 0;
  std::size_t running = 0;
};

struct Launcher::PeState {
  CubeState* cube = nullptr;
  PeLocation at;
};

class Launcher::Launch {
 public:
  void assign(std::span<const PeLocation> locations);

  int sip = 0;
  Event start;
  Event done;
  std::vector<PeState> pes;
  std::vector<CubeState> cubes;
  std::size_t running_cubes = 0;
  bool is_from_host = true;
};

// Groups the PEs by cube: the last PE of each cube lets its M_CPU report.
void Launcher::Launch::assign(std::span<const PeLocation> locations) {
  sip = locations.front().sip;
  pes.clear();
  cubes.clear();
  for (const PeLocation& at : locations) {
    KB_CHECK(at.sip == sip, "a launch on sip{} and sip{}", sip, at.sip);
    if (cubes.empty() || cubes.back().cube != at.cube) {
      cubes.push_back({this, at.cube, pes.size(), 0, 0});
    }
    cubes.back().running = ++cubes.back().count;
    pes.push_back({nullptr, at});
  }
  for (CubeState& cube : cubes) {
    for (std::size_t i = 0; i < cube.count; ++i) pes[cube.first + i].cube = &cube;
  }
  running_cubes = cubes.size();
}

Launcher::Launcher(Engine& engine, Fabric& fabric, const Topology& topology)
    : engine_(engine),
      fabric_(fabric),
      topology_(topology),
      io_cpus_(static_cast<std::size_t>(topology.system.sip_count)),
      m_cpus_(static_cast<std::size_t>(topology.system.sip_count * topology.cube_count())) {}

Launcher::~Launcher() = default;

Launcher::Launch& Launcher::take(std::span<const PeLocation> pes, const Event& start,
                                 const Event& done) {
  KB_CHECK(!pes.empty(), "a launch on no PE");
  if (free_.empty()) {
    launches_.push_back(std::make_unique<Launch>());
    free_.push_back(launches_.back().get());
  }
  Launch& launch = *free_.back();
  free_.pop_back();
  launch.assign(pes);
  launch.start = start;
  launch.done = done;
  return launch;
}

Launcher::Launch& Launcher::launch(std::span<const PeLocation> pes, const Event& start,
                                   const Event& done) {
  Launch& launch = take(pes, start, done);
  launch.is_from_host = true;
  const Path& path = fabric_.path({Endpoint::Kind::host, {launch.sip, 0, 0}},
                                  {Endpoint::Kind::io_cpu, {launch.sip, 0, 0}});
  send(path, Engine::call<&Launcher::at_io_cpu>(this, launch));
  return launch;
}

Launcher::Launch& Launcher::launch_at_io_cpu(std::span<const PeLocation> pes, const Event& start,
                                             const Event& done) {
  Launch& launch = take(pes, start, done);
  launch.is_from_host = false;
  at_io_cpu(launch);
  return launch;
}

Time Launcher::host_leg(int sip) {
  return fabric_.path({Endpoint::Kind::host, {sip, 0, 0}}, {Endpoint::Kind::io_cpu, {sip, 0, 0}})
      .time_of(kMessageBytes);
}

// A launch, or the word that it has ended, does not wait for data.
void Launcher::send(const Path& path, const Event& delivered) {
  fabric_.send(path, kMessageBytes, delivered, Time{0}, Priority::express);
}

// The IO_CPU passes a launch on, cube by cube.  The message then finds its own way.
void Launcher::at_io_cpu(Launch& launch) {
  FifoServer& io_cpu = io_cpus_[static_cast<std::size_t>(launch.sip)];
  for (CubeState& cube : launch.cubes) {
    const Time dispatch = topology_.sip.io_cpu_dispatch;
    const Time sent = io_cpu.reserve(engine_.now(), dispatch) + dispatch;
    engine_.schedule<&Launcher::leave_io_cpu>(sent - engine_.now(), this, cube, Cause::launch);
  }
}

void Launcher::leave_io_cpu(CubeState& cube) {
  const int sip = cube.launch->sip;
  const Path& path = fabric_.path({Endpoint::Kind::io_cpu, {sip, 0, 0}},
                                  {Endpoint::Kind::m_cpu, {sip, cube.cube, 0}});
  send(path, Engine::call<&Launcher::at_m_cpu>(this, cube));
}

void Launcher::at_m_cpu(CubeState& cube) {
  Launch& launch = *cube.launch;
  FifoServer& m_cpu =
      m_cpus_[static_cast<std::size_t>(launch.sip * topology_.cube_count() + cube.cube)];
  for (std::size_t i = 0; i < cube.count; ++i) {
    const Time dispatch = topology_.cube.m_cpu_dispatch;
    const Time sent = m_cpu.reserve(engine_.now(), dispatch) + dispatch;
    engine_.schedule<&Launcher::leave_m_cpu>(sent - engine_.now(), this, launch.pes[cube.first + i],
                                             Cause::launch);
  }
}

void Launcher::leave_m_cpu(PeState& pe) {
  const PeLocation& at = pe.at;
  const Path& path =
      fabric_.path({Endpoint::Kind::m_cpu, {at.sip, at.cube, 0}}, {Endpoint::Kind::pe_cpu, at});
  send(path, Engine::call<&Launcher::at_pe>(this, pe));
}

void Launcher::at_pe(PeState& pe) {
  const Launch& launch = *pe.cube->launch;
  launch.start.function(launch.start.object, static_cast<std::uint64_t>(&pe - launch.pes.data()));
}

void Launcher::kernel_finished(Launch& launch, std::size_t index) {
  const PeState& pe = launch.pes.at(index);
  const Path& path = fabric_.path({Endpoint::Kind::pe_cpu, pe.at},
                                  {Endpoint::Kind::m_cpu, {pe.at.sip, pe.at.cube, 0}});
  send(path, Engine::call<&Launcher::pe_reported>(this, *pe.cube));
}

void Launcher::pe_reported(CubeState& cube) {
  KB_CHECK(cube.running > 0, "a PE has reported twice");
  if (--cube.running > 0) return;
  const int sip = cube.launch->sip;
  const Path& path = fabric_.path({Endpoint::Kind::m_cpu, {sip, cube.cube, 0}},
                                  {Endpoint::Kind::io_cpu, {sip, 0, 0}});
  send(path, Engine::call<&Launcher::cube_reported>(this, *cube.launch));
}

void Launcher::cube_reported(Launch& launch) {
  if (--launch.running_cubes > 0) return;
  free_.push_back(&launch);
  const Event done = launch.done;
  if (!launch.is_from_host) return done.function(done.object, done.argument);
  const Path& path = fabric_.path({Endpoint::Kind::io_cpu, {launch.sip, 0, 0}},
                                  {Endpoint::Kind::host, {launch.sip, 0, 0}});
  send(path, done);
}

void Launcher::reset() {
  const Time now = engine_.now();
  for (FifoServer& cpu : io_cpus_) cpu.release(now);
  for (FifoServer& cpu : m_cpus_) cpu.release(now);
  free_.clear();
  for (const auto& launch : launches_) free_.push_back(launch.get());
}

}  // namespace kernbench::sim
