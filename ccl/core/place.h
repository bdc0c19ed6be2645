// The place of a collective's participant among the others, and the ports through which its PE
// reaches them.  A participant is a rank's holder of a shard (rank = SIP) or a single PE.

#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/tl/tl.h"
#include "sim_engine/topology/grid.h"

namespace kernbench::ccl {

// The structure along which an algorithm sends.
enum class Neighbours { grid, ring, tree };
inline constexpr std::array kNeighbours = {Neighbours::grid, Neighbours::ring, Neighbours::tree};
std::string_view name_of(Neighbours neighbours);

struct GridPlace {
  sim::Grid grid;
  int index = 0;
  std::array<tl::Port, sim::kCompassCount> ports{};  // by sim::Compass

  tl::Port port(sim::Compass towards) const { return ports[static_cast<std::size_t>(towards)]; }
};

struct RingPlace {
  int index = 0;
  int size = 1;
  tl::Port next{};      // to the participant with index + 1
  tl::Port previous{};  // to the one with index - 1
};

struct TreePlace {
  std::optional<tl::Port> parent;  // nullopt at the root
  std::vector<tl::Port> children;  // in the order in which their values are added
};

// With rank = PE only the structures that are wanted exist (Config::neighbours()).
struct Place {
  std::optional<GridPlace> grid;
  std::optional<RingPlace> ring;
  std::optional<TreePlace> tree;
};

}  // namespace kernbench::ccl
