// Where a participant of a collective stands among the others, and the ports through which its PE
// reaches them.  A participant is a rank's holder of a shard (rank = SIP) or a single PE.

#pragma once

#include <array>
#include <optional>
#include <vector>

#include "runtime/tl/tl.h"
#include "sim_engine/components/grid.h"

namespace kernbench::ccl {

// Which of the structures below an algorithm sends along.
enum class Neighbours { grid, ring, tree };

struct GridPlace {
  sim::Grid grid;
  int index = 0;
  std::array<tl::Port, sim::kCompassCount> ports{};  // by sim::Compass

  tl::Port port(sim::Compass towards) const { return ports[static_cast<std::size_t>(towards)]; }
};

struct RingPlace {
  int index = 0;
  int size = 1;
  tl::Port next{};      // to the participant of index + 1
  tl::Port previous{};  // to the one of index - 1
};

struct TreePlace {
  std::optional<tl::Port> parent;  // none: this is the root
  std::vector<tl::Port> children;  // in the order in which their values are added
};

struct Place {
  GridPlace grid;
  RingPlace ring;
  TreePlace tree;
};

}  // namespace kernbench::ccl
