// The ring through all nodes of a grid: a Hamiltonian cycle wherever there is one.

#include "ccl/core/ring_order.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/ccl/every_grid.h"

namespace kernbench::test::ring_order_test {
namespace {

bool are_neighbours(const sim::Grid& grid, int a, int b) {
  for (int i = 0; i < sim::kCompassCount; ++i) {
    if (grid.neighbour(a, static_cast<sim::Compass>(i)) == b) return true;
  }
  return false;
}

// TIMING.md 3.2: without wrap-around iff w * h is even and both are at least 2.
bool has_cycle(const sim::Grid& grid) {
  return grid.wraps || (grid.w >= 2 && grid.h >= 2 && grid.count() % 2 == 0);
}

TEST_CASE("the ring meets every node of a grid once", "[ccl][ring_order]") {
  for_each_grid([](const sim::Grid& grid) {
    std::vector<int> nodes = ccl::ring_order(grid);
    std::ranges::sort(nodes);
    std::vector<int> all(static_cast<std::size_t>(grid.count()));
    for (int i = 0; i < grid.count(); ++i) all[static_cast<std::size_t>(i)] = i;
    CHECK(nodes == all);
  });
}

TEST_CASE("neighbours in the ring are neighbours in the grid", "[ccl][ring_order]") {
  for_each_grid([](const sim::Grid& grid) {
    const std::vector<int> order = ccl::ring_order(grid);
    for (std::size_t i = 1; i < order.size(); ++i) {
      CHECK(are_neighbours(grid, order[i - 1], order[i]));
    }
  });
}

TEST_CASE("the ring is closed wherever a grid has a Hamiltonian cycle, and only there",
          "[ccl][ring_order]") {
  for_each_grid([](const sim::Grid& grid) {
    if (grid.count() <= 2) return;
    const std::vector<int> order = ccl::ring_order(grid);
    CHECK(are_neighbours(grid, order.back(), order.front()) == has_cycle(grid));
  });
}

TEST_CASE("on a line the ring is the line, which a ring of SIPs closes", "[ccl][ring_order]") {
  CHECK(ccl::ring_order({5, 1, false}) == std::vector{0, 1, 2, 3, 4});
  CHECK(ccl::ring_order({1, 4, true}) == std::vector{0, 1, 2, 3});
  CHECK(ccl::ring_order({2, 1, true}) == std::vector{0, 1});
  CHECK(ccl::ring_order({1, 1, false}) == std::vector{0});
}

}  // namespace
}  // namespace kernbench::test::ring_order_test
