// Trees out of one member that share no link.

#include "ccl/core/edge_disjoint_trees.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace kernbench::test::edge_disjoint_trees_test {
namespace {

using ccl::EdgeDisjointTrees;
using ccl::Row;

struct Grid {
  std::vector<Row> rows;
  std::vector<Row> columns;

  std::vector<Row> lines() const {
    std::vector<Row> all = rows;
    all.insert(all.end(), columns.begin(), columns.end());
    return all;
  }
};

Grid make_grid(int w, int h, bool wraps) {
  Grid grid;
  for (int y = 0; y < h; ++y) {
    std::vector<int> row(static_cast<std::size_t>(w));
    std::iota(row.begin(), row.end(), y * w);
    grid.rows.emplace_back(row, wraps);
  }
  for (int x = 0; x < w; ++x) {
    std::vector<int> column;
    for (int y = 0; y < h; ++y) column.push_back(y * w + x);
    grid.columns.emplace_back(column, wraps);
  }
  return grid;
}

bool are_neighbours(int w, int h, bool wraps, int a, int b) {
  const auto step = [&](int from, int to, int size) {
    const int distance = std::abs(from - to);
    return distance == 1 || (wraps && size > 2 && distance == size - 1);
  };
  if (a / w == b / w) return step(a % w, b % w, w);
  return a % w == b % w && step(a / w, b / w, h);
}

// Each member has a way of neighbours to the root in each tree, and no link is in two trees.
void check_trees(int w, int h, bool wraps, int root, std::size_t count) {
  CAPTURE(w, h, wraps, root);
  const Grid grid = make_grid(w, h, wraps);
  const EdgeDisjointTrees of_grid(w * h, grid.lines());
  const EdgeDisjointTrees::Trees& trees = of_grid.of_root(root);
  REQUIRE(trees.inner.size() == count);
  std::set<std::pair<int, int>> links;
  int longest = 0;
  for (const std::vector<int>& inner : trees.inner) {
    for (int member = 0; member < w * h; ++member) {
      int distance = 0;
      for (int at = member; at != root; at = inner[static_cast<std::size_t>(at)]) {
        REQUIRE(++distance < w * h);
        REQUIRE(are_neighbours(w, h, wraps, at, inner[static_cast<std::size_t>(at)]));
      }
      longest = std::max(longest, distance);
      if (member == root) continue;
      CHECK(links.emplace(inner[static_cast<std::size_t>(member)], member).second);
    }
  }
  CHECK(trees.longest == ccl::kTimesOfHop * longest);
}

TEST_CASE("trees share no link, and are as many as a corner has neighbours", "[ccl][trees]") {
  check_trees(3, 2, false, 0, 2);
  check_trees(3, 3, false, 4, 2);
  check_trees(3, 3, true, 4, 4);
  check_trees(4, 2, true, 1, 3);
  check_trees(8, 8, true, 63, 4);
  check_trees(8, 9, false, 17, 2);
  check_trees(16, 16, true, 100, 4);
}

TEST_CASE("trees of 1,024 members share no link", "[ccl][trees][exhaustive]") {
  check_trees(32, 32, true, 500, 4);
  check_trees(32, 32, false, 0, 2);
}

}  // namespace
}  // namespace kernbench::test::edge_disjoint_trees_test
