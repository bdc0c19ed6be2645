#pragma once

#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

// A message between the host and the IO_CPU, and between that and a PE (round_topology()).
inline constexpr Time kHostLeg{200'000 + 6'400};
inline constexpr Time kDeviceLeg{5'000 + 640 + 2'000 + 3'200};

// 2 SIPs of 2 cubes of 2 PEs.
inline Topology topology_with_issue(Time issue = Time{0}) {
  Topology topology = small_topology();
  topology.system.host_issue = issue;
  return topology;
}

inline const RuntimeOptions kQueued{.launch_blocking = false};

inline void nothing(tl::Context&, tl::Pointer) {}
inline void add_one(tl::Context& tl, tl::Pointer x) {
  tl.store(x, tl.load(x, {4}, x.dtype()) + 1.0);
}
inline void twice(tl::Context& tl, tl::Pointer x) {
  tl.store(x, tl.load(x, {4}, x.dtype()) * 2.0);
}

}  // namespace kernbench::test
