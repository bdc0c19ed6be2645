// The simulation of a context, for code that is built on the runtime: backends, benches and tests.

#pragma once

#include <memory>

namespace kernbench {

class RuntimeContext;

namespace runtime {
class Simulation;
}

runtime::Simulation& simulation_of(const RuntimeContext& torch);
// Returns a handle that keeps the simulation when the context has ended.
const std::shared_ptr<runtime::Simulation>& shared_simulation_of(const RuntimeContext& torch);

}  // namespace kernbench
