#include "ccl/core/ring_order.h"

namespace kernbench::ccl {

namespace {

// Visits columns first_column..w-1 of a grid row by row, in alternating directions.
std::vector<int> snake(const sim::Grid& grid, int first_column) {
  std::vector<int> order;
  for (int y = 0; y < grid.h; ++y) {
    for (int i = first_column; i < grid.w; ++i) {
      const int x = y % 2 == 0 ? i : grid.w - 1 - (i - first_column);
      order.push_back(grid.index_of(x, y));
    }
  }
  return order;
}

// REQUIRES: h is even, w >= 2.  The snake leaves column 0 free for the way back.
std::vector<int> cycle_of_even_height(const sim::Grid& grid) {
  std::vector<int> order = snake(grid, 1);
  for (int y = grid.h - 1; y >= 0; --y) order.push_back(grid.index_of(0, y));
  return order;
}

// REQUIRES: w and h are odd, w <= h, wrap-around.  The cycle visits all of each row.  A row that
// runs east makes the next one begin a column further west, and one that runs west a column
// further east.  (h + w)/2 of the h rows run west, so that the last row ends in the column in
// which the first begins.
std::vector<int> cycle_of_odd_torus(const sim::Grid& grid) {
  std::vector<int> order;
  int column = 0;
  for (int y = 0; y < grid.h; ++y) {
    const int step = y < (grid.h + grid.w) / 2 ? grid.w - 1 : 1;
    for (int i = 0; i < grid.w; ++i) {
      order.push_back(grid.index_of((column + i * step) % grid.w, y));
    }
    column = (column + (grid.w - 1) * step) % grid.w;
  }
  return order;
}

// Applies `order` to the grid with rows and columns exchanged.
template <class Order>
std::vector<int> transposed(const sim::Grid& grid, Order order) {
  const sim::Grid turned{grid.h, grid.w, grid.wraps};
  std::vector<int> nodes = order(turned);
  for (int& node : nodes) node = grid.index_of(turned.y_of(node), turned.x_of(node));
  return nodes;
}

}  // namespace

FlatGrid flattened(const sim::Grid& grid) {
  return {{grid.w, grid.h * grid.d, grid.wraps}, ring_order({grid.h, grid.d, grid.wraps})};
}

int FlatGrid::node(const sim::Grid& whole, int x, int y) const {
  const int yz = lines[static_cast<std::size_t>(y)];
  return whole.index_of(x, yz % whole.h, yz / whole.h);
}

std::vector<int> ring_order(const sim::Grid& grid) {
  if (grid.d > 1) {
    const FlatGrid flat = flattened(grid);
    std::vector<int> order = ring_order(flat.grid);
    for (int& node : order) node = flat.node(grid, flat.grid.x_of(node), flat.grid.y_of(node));
    return order;
  }
  if (grid.w < 2 || grid.h < 2) return snake(grid, 0);
  if (grid.h % 2 == 0) return cycle_of_even_height(grid);
  if (grid.w % 2 == 0) return transposed(grid, cycle_of_even_height);
  if (!grid.wraps) return snake(grid, 0);
  return grid.w <= grid.h ? cycle_of_odd_torus(grid) : transposed(grid, cycle_of_odd_torus);
}

bool are_neighbours(const sim::Grid& grid, int a, int b) {
  for (int i = 0; i < sim::kCompassCount; ++i) {
    if (grid.neighbour(a, static_cast<sim::Compass>(i)) == b) return true;
  }
  return false;
}

}  // namespace kernbench::ccl
