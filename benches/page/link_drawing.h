// Drawings of the links between SIPs, and between the cubes of a SIP, as the machine has them: each
// directed link with the colour of its use.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/topology/location.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::page {

// The use of a link, or of parallel ones together.
struct LinkUse {
  std::string name = {};
  double share = 0;
  Bytes carried = 0;
};
using FindUse = std::function<LinkUse(const std::string& name)>;

// The links between SIPs; nothing if there are too many to be seen.
std::optional<std::string> draw_sip_links(const Topology& topology, const FindUse& find);
// The links between the cubes of a SIP; nothing if it has one cube, or too many.
std::optional<std::string> draw_cube_links(const Topology& topology, int sip, const FindUse& find);

}  // namespace kernbench::benches::page
