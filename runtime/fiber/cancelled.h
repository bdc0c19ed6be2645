// The exception that unwinds a fiber.

#pragma once

namespace kernbench {

// Thrown by every blocking call of a fiber whose run is over, to unwind it.  Not a std::exception,
// so that code which catches those lets it pass.  Never swallow it with catch (...).
struct Cancelled {};

}  // namespace kernbench
