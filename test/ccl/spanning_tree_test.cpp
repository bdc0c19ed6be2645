// Trees over a grid towards its centre or a corner, and the binomial tree.

#include "ccl/core/spanning_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "ccl/core/plan.h"
#include "test/ccl/every_grid.h"

namespace kernbench::test::spanning_tree_test {
namespace {

using ccl::Root;

// Steps from a node to the root; -1 if there are more than nodes.
int steps_to_root(const sim::Grid& grid, int count, int node, Root root) {
  int steps = 0;
  for (auto place = grid_tree_node(grid, count, node, root); place.parent; ++steps) {
    if (steps > count) return -1;
    node = grid.neighbour(node, *place.parent);
    if (node < 0 || node >= count) return -1;
    place = grid_tree_node(grid, count, node, root);
  }
  return node == root_of(grid, count, root) ? steps : -1;
}

void check_tree(const sim::Grid& grid, int count, Root root) {
  CAPTURE(count);
  int deepest = 0;
  int edges = 0;
  for (int node = 0; node < count; ++node) {
    const int steps = steps_to_root(grid, count, node, root);
    CHECK(steps >= 0);
    deepest = std::max(deepest, steps);
    const auto place = grid_tree_node(grid, count, node, root);
    for (const sim::Compass side : place.children) {
      const int child = grid.neighbour(node, side);
      REQUIRE(child >= 0);
      REQUIRE(child < count);
      CHECK(grid_tree_node(grid, count, child, root).parent == sim::opposite(side));
      ++edges;
    }
  }
  CHECK(edges == count - 1);
  CHECK(grid_tree_depth(grid, count, root) == deepest);
}

TEST_CASE("every node of a grid reaches the root, and is a child of its parent alone",
          "[ccl][spanning_tree]") {
  const Root root = GENERATE(Root::center, Root::corner, Root::first_corner);
  for_each_grid([&](const sim::Grid& grid) { check_tree(grid, grid.count(), root); });
}

TEST_CASE("so does every node of the first so many of a grid without wrap-around",
          "[ccl][spanning_tree]") {
  const Root root = GENERATE(Root::center, Root::corner, Root::first_corner);
  for_each_grid([&](const sim::Grid& grid) {
    for (int count = 1; !grid.wraps && count <= grid.count(); ++count) {
      check_tree(grid, count, root);
    }
  });
}

TEST_CASE("the centre is floor(w/2) + floor(h/2) steps away, wrapping around or not",
          "[ccl][spanning_tree]") {
  for_each_grid([](const sim::Grid& grid) {
    CHECK(grid_tree_depth(grid, grid.count(), Root::center) == grid.w / 2 + grid.h / 2);
  });
}

TEST_CASE("a corner is (w - 1) + (h - 1) steps away, but as near as the centre on a torus",
          "[ccl][spanning_tree]") {
  for_each_grid([](const sim::Grid& grid) {
    const int steps = grid.wraps ? grid.w / 2 + grid.h / 2 : grid.w - 1 + grid.h - 1;
    CHECK(grid_tree_depth(grid, grid.count(), Root::corner) == steps);
    CHECK(grid_tree_depth(grid, grid.count(), Root::first_corner) == steps);
  });
}

TEST_CASE(
    "on 4 x 4 nodes the way to the root and back is 8 steps from the centre, 12 from a corner",
    "[ccl][spanning_tree]") {
  const sim::Grid grid{4, 4, false};
  CHECK(2 * grid_tree_depth(grid, 16, Root::center) == 8);
  CHECK(2 * grid_tree_depth(grid, 16, Root::corner) == 12);
  CHECK(root_of(grid, 16, Root::center) == grid.index_of(2, 2));
  CHECK(root_of(grid, 16, Root::corner) == 15);
  CHECK(root_of(grid, 16, Root::first_corner) == 0);
}

TEST_CASE("the binomial tree joins all nodes in ceil(log2 P) rounds", "[ccl][spanning_tree]") {
  for (int count = 1; count <= 70; ++count) {
    CAPTURE(count);
    int rounds = 0;
    while ((1 << rounds) < count) ++rounds;
    std::set<int> told;
    for (int node = 0; node < count; ++node) {
      const auto place = ccl::binomial_tree_node(count, node);
      CHECK(place.parent.has_value() == (node != 0));
      CHECK(static_cast<int>(place.children.size()) <= rounds);
      for (const int child : place.children) {
        CHECK(child < count);
        CHECK(ccl::binomial_tree_node(count, child).parent == node);
        CHECK(told.insert(child).second);
      }
    }
    CHECK(static_cast<int>(told.size()) == count - 1);
    CHECK(static_cast<int>(ccl::binomial_tree_node(count, 0).children.size()) == rounds);
  }
}

TEST_CASE("the children of a binomial tree's node are added in the order of the rounds",
          "[ccl][spanning_tree]") {
  CHECK(ccl::binomial_tree_node(8, 0).children == std::vector{1, 2, 4});
  CHECK(ccl::binomial_tree_node(8, 4).children == std::vector{5, 6});
  CHECK(ccl::binomial_tree_node(7, 4).children == std::vector{5, 6});
  CHECK(ccl::binomial_tree_node(6, 4).children == std::vector{5});
  CHECK(ccl::binomial_tree_node(8, 6).parent == 4);
  CHECK(ccl::binomial_tree_node(8, 7).parent == 6);
  CHECK(ccl::binomial_tree_node(8, 7).children.empty());
}

}  // namespace
}  // namespace kernbench::test::spanning_tree_test
