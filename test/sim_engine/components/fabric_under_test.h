// Messages over the links of a topology.

#pragma once

#include <map>
#include <utility>

#include "sim_engine/components/fabric.h"
#include "sim_engine/core/engine.h"

namespace kernbench::sim {

// Sends messages, and notes when each was delivered.
struct FabricUnderTest {
  explicit FabricUnderTest(Topology of) : topology(std::move(of)) {}

  Topology topology;
  Engine engine;
  Fabric fabric{engine, topology, nullptr};
  std::map<std::uint64_t, Time> delivered;

  void note(std::uint64_t id) { delivered[id] = engine.now(); }
  void send(const Endpoint& from, const Endpoint& to, Bytes bytes, std::uint64_t id = 0) {
    fabric.send(fabric.path(from, to), bytes, Engine::call<&FabricUnderTest::note>(this, id));
  }
  Time time_of(const Endpoint& from, const Endpoint& to, Bytes bytes) {
    const Time start = engine.now();
    send(from, to, bytes);
    engine.run();
    return delivered.at(0) - start;
  }
};

}  // namespace kernbench::sim
