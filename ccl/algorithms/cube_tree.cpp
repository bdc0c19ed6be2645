#include "ccl/algorithms/cube_tree.h"

#include <algorithm>

#include "sim_engine/components/direction.h"

namespace kernbench::ccl {

namespace {

std::optional<sim::Compass> towards_root(const sim::Grid& cubes, int count, int cube) {
  const int root = root_cube(cubes, count);
  if (cube == root) return std::nullopt;
  const sim::Compass step = cubes.first_step(cube, root);
  const int next = cubes.neighbour(cube, step);
  return next < count ? step : sim::Compass::north;
}

}  // namespace

int root_cube(const sim::Grid& cubes, int count) {
  const int columns = std::min(count, cubes.w);
  const int full_rows = std::max(count / cubes.w, 1);
  return cubes.index_of(columns / 2, full_rows / 2);
}

CubeTreeNode cube_tree_node(const sim::Grid& cubes, int count, int cube) {
  CubeTreeNode node;
  if (const auto step = towards_root(cubes, count, cube)) {
    node.parent = sim::to_direction(*step);
  }
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const auto direction = static_cast<sim::Compass>(i);
    const int neighbour = cubes.neighbour(cube, direction);
    if (neighbour < 0 || neighbour >= count) continue;
    if (towards_root(cubes, count, neighbour) == sim::opposite(direction)) {
      node.children.push_back(sim::to_direction(direction));
    }
  }
  return node;
}

}  // namespace kernbench::ccl
