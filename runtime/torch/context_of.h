#pragma once

namespace kernbench {

class RuntimeContext;

namespace runtime {

class Simulation;

// Returns the context that has this simulation.
RuntimeContext& context_of(Simulation& simulation);

}  // namespace runtime
}  // namespace kernbench
