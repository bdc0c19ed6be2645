#pragma once

#include "test/support/small_topology.h"

namespace kernbench::test {

// A message between the host and the IO_CPU, and between that and a PE (round_topology()).
inline constexpr Time kHostLeg{200'000 + 6'400};
inline constexpr Time kDeviceLeg{5'000 + 640 + 2'000 + 3'200};

// 2 SIPs of 2 cubes of 2 PEs.
inline Topology topology_with_issue(Time issue = Time{0}) {
  Topology topology = round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
  topology.system.host_issue = issue;
  return topology;
}

}  // namespace kernbench::test
