#include "sim_engine/topology/location.h"

#include <array>

namespace kernbench::sim {

bool exists(const Topology& topology, const PeLocation& location) {
  const auto in = [](int number, int count) { return number >= 0 && number < count; };
  return in(location.sip, topology.system.sip_count) && in(location.cube, topology.cube_count()) &&
         in(location.pe, topology.pe_count());
}

std::uint32_t pe_number(const Topology& topology, const PeLocation& location) {
  const int number =
      (location.sip * topology.cube_count() + location.cube) * topology.pe_count() + location.pe;
  return static_cast<std::uint32_t>(number);
}

std::string_view name_of(Compass direction) {
  constexpr std::array<std::string_view, kCompassCount> kNames = {"east",  "west", "north",
                                                                  "south", "up",   "down"};
  return kNames.at(static_cast<std::size_t>(direction));
}

}  // namespace kernbench::sim
