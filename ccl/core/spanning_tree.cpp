#include "ccl/core/spanning_tree.h"

#include <algorithm>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

namespace {

std::optional<sim::Compass> towards_root(const sim::Grid& grid, int count, int node, int root) {
  if (node == root) return std::nullopt;
  const sim::Compass step = grid.first_step(node, root);
  const int next = grid.neighbour(node, step);
  return next < count ? step : sim::Compass::north;
}

}  // namespace

int root_of(const sim::Grid& grid, int count, Root root) {
  if (root == Root::first_corner) return 0;
  const int columns = std::min(count, grid.w);
  const int full_rows = std::max(count / grid.w, 1);
  if (root == Root::corner) return grid.index_of(columns - 1, full_rows - 1);
  return grid.index_of(columns / 2, full_rows / 2);
}

GridTreeNode grid_tree_node(const sim::Grid& grid, int count, int node, Root root) {
  const int root_node = root_of(grid, count, root);
  GridTreeNode place{towards_root(grid, count, node, root_node), {}};
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const auto direction = static_cast<sim::Compass>(i);
    const int neighbour = grid.neighbour(node, direction);
    if (neighbour < 0 || neighbour >= count) continue;
    if (towards_root(grid, count, neighbour, root_node) == sim::opposite(direction)) {
      place.children.push_back(direction);
    }
  }
  return place;
}

int grid_tree_distance(const sim::Grid& grid, int count, int node, Root root) {
  const int root_node = root_of(grid, count, root);
  int distance = 0;
  for (int at = node; at != root_node; ++distance) {
    at = grid.neighbour(at, *towards_root(grid, count, at, root_node));
  }
  return distance;
}

int grid_tree_depth(const sim::Grid& grid, int count, Root root) {
  int deepest = 0;
  for (int node = 0; node < count; ++node) {
    deepest = std::max(deepest, grid_tree_distance(grid, count, node, root));
  }
  return deepest;
}

BinomialTreeNode binomial_tree_node(int count, int node) {
  BinomialTreeNode place;
  if (node != 0) place.parent = node & (node - 1);
  for (int bit = 1; (node & bit) == 0 && node + bit < count; bit *= 2) {
    place.children.push_back(node + bit);
  }
  return place;
}

}  // namespace kernbench::ccl
