// The tree over a SIP's cubes along which values are reduced to the centre and broadcast back.

#pragma once

#include <optional>
#include <vector>

#include "sim_engine/components/grid.h"
#include "sim_engine/components/ipcq.h"

namespace kernbench::ccl {

// The cube in the middle of the first `count` cubes, so that values come from both sides at once:
// on w x h cubes no cube is further than floor(w/2) + floor(h/2) steps away.
int root_cube(const sim::Grid& cubes, int count);

// One cube's place in the tree: along its row to the root's column, then along that column.  (A
// cube of an unfinished last row that does not reach the column goes north first.)
struct CubeTreeNode {
  std::optional<sim::Direction> parent;  // none: this is the root
  std::vector<sim::Direction> children;  // in the order in which their values are added
};

CubeTreeNode cube_tree_node(const sim::Grid& cubes, int count, int cube);

}  // namespace kernbench::ccl
