// The group of a call, with the source line of the call.  If ranks do not meet, reports name the
// user's line (for backward, the line of the forward call) and never a line of tp.

#pragma once

#include <optional>

#include "tp/parallel_state.h"

namespace kernbench::tp {

using distributed::Location;

// A ProcessGroup argument converts to a CallGroup, with the line of the call.
struct CallGroup {
  // NOLINTNEXTLINE(google-explicit-constructor)
  CallGroup(const ProcessGroup& given, Location at = Location::current())
      : group(given), location(at) {}

  ProcessGroup group;
  Location location;
};

// A CallGroup that may be left out, which means the caller's tensor model parallel group.  The
// default of such an argument is the line alone.
struct OptionalCallGroup {
  // NOLINTBEGIN(google-explicit-constructor)
  OptionalCallGroup(Location at) : location(at) {}
  OptionalCallGroup(std::nullopt_t, Location at = Location::current()) : location(at) {}
  OptionalCallGroup(const ProcessGroup& given, Location at = Location::current())
      : group(given), location(at) {}
  OptionalCallGroup(const OptionalGroup& given, Location at = Location::current())
      : group(given), location(at) {}
  // NOLINTEND(google-explicit-constructor)

  CallGroup get(RuntimeContext& torch) const {
    return {group_or_tensor_model_parallel(torch, group), location};
  }

  OptionalGroup group = std::nullopt;
  Location location;
};

}  // namespace kernbench::tp
