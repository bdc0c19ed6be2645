// The group of a call, with the source line that it is called at: where ranks do not meet, reports
// name the user's line, of backward that of the forward call, and none of tp's.

#pragma once

#include <optional>

#include "tp/parallel_state.h"

namespace kernbench::tp {

using distributed::Location;

// A ProcessGroup becomes one where it is given, with the line there.
struct CallGroup {
  // NOLINTNEXTLINE(google-explicit-constructor)
  CallGroup(const ProcessGroup& given, Location at = Location::current())
      : group(given), location(at) {}

  ProcessGroup group;
  Location location;
};

// The same of one that may be left out, for the caller's tensor model parallel group: the line
// alone is the default of such an argument.
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
