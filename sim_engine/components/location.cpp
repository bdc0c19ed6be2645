#include "sim_engine/components/location.h"

#include <array>

namespace kernbench::sim {

bool exists(const Topology& topology, const PeLocation& location) {
  return location.sip < topology.system.sip_count && location.cube < topology.cube_count() &&
         location.pe < topology.pe_count();
}

std::string_view name_of(Compass direction) {
  constexpr std::array<std::string_view, kCompassCount> kNames = {"east", "west", "north", "south"};
  return kNames.at(static_cast<std::size_t>(direction));
}

}  // namespace kernbench::sim
