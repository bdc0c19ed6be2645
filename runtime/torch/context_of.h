#pragma once

#include <string_view>

#include "sim_engine/base/dtype.h"

namespace kernbench {

class RuntimeContext;

namespace runtime {

class Simulation;

// Returns the context that has this simulation.
RuntimeContext& context_of(Simulation& simulation);

// Throws DeviceError KB-M021 for a finite number that does not fit into the type; negative numbers
// wrap around in unsigned types.
void check_fits(std::string_view function, const Scalar& number, DType dtype);

}  // namespace runtime
}  // namespace kernbench
