#include <fmt/format.h>

#include <array>

#include "sim_engine/base/enum_names.h"
#include "sim_engine/topology/location.h"

namespace kernbench::sim {

std::string_view name_of(Direction direction) {
  constexpr std::array<std::string_view, kDirectionCount> kNames = {
      "east",        "west",         "north",        "south",     "global_east",
      "global_west", "global_north", "global_south", "global_up", "global_down"};
  return name_in(kNames, direction);
}

std::string to_string(Port port) {
  if (port.index == 0) return std::string(name_of(port.direction));
  return fmt::format("{}[{}]", name_of(port.direction), port.index);
}

}  // namespace kernbench::sim
