// The structures in which a collective's participant has a place.

#pragma once

#include <optional>

#include "ccl/core/algorithm.h"

namespace kernbench::ccl {

// With rank = PE only the structures that are wanted exist (Config::neighbours()).
struct Place {
  std::optional<GridPlace> grid;
  std::optional<RingPlace> ring;
  std::optional<TreePlace> tree;
};

}  // namespace kernbench::ccl
