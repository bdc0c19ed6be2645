// The exception that unwinds a fiber.

#pragma once

namespace kernbench {

// Every blocking call of a fiber whose run is over throws this, to unwind the fiber.  It is not a
// std::exception, so that code which catches those lets it pass.  Never swallow it with catch
// (...).
struct Cancelled {};

}  // namespace kernbench
