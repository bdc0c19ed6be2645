#include "sim_engine/base/check.h"
#include "sim_engine/topology/location.h"

namespace kernbench::sim {

namespace {

// One dimension of Grid::first_step: true to step towards greater coordinates.
bool forwards(int from, int to, int size, bool wraps) {
  if (!wraps || size == 2) return to > from;  // size 2: the wrap-around link is the direct link
  const int ahead = (to - from + size) % size;
  return ahead <= size - ahead;
}

// One dimension of Grid::neighbour, or -1.
int stepped(int coordinate, int step, int size, bool wraps) {
  const int next = coordinate + step;
  if (next >= 0 && next < size) return next;
  return wraps && size > 1 ? (next + size) % size : -1;
}

}  // namespace

int Grid::neighbour(int index, Compass direction) const {
  const int x = x_of(index);
  const int y = y_of(index);
  const int z = z_of(index);
  switch (direction) {
    case Compass::east:
    case Compass::west: {
      const int next = stepped(x, direction == Compass::east ? 1 : -1, w, wraps);
      return next < 0 ? -1 : index_of(next, y, z);
    }
    case Compass::north:
    case Compass::south: {
      const int next = stepped(y, direction == Compass::south ? 1 : -1, h, wraps);
      return next < 0 ? -1 : index_of(x, next, z);
    }
    case Compass::up:
    case Compass::down:
      break;
  }
  const int next = stepped(z, direction == Compass::down ? 1 : -1, d, wraps);
  return next < 0 ? -1 : index_of(x, y, next);
}

Compass Grid::first_step(int from, int to) const {
  KB_CHECK(from != to, "no step leads from {} to itself", from);
  if (x_of(from) != x_of(to)) {
    return forwards(x_of(from), x_of(to), w, wraps) ? Compass::east : Compass::west;
  }
  if (y_of(from) != y_of(to)) {
    return forwards(y_of(from), y_of(to), h, wraps) ? Compass::south : Compass::north;
  }
  return forwards(z_of(from), z_of(to), d, wraps) ? Compass::down : Compass::up;
}

int Grid::place_seen_from(int from, int other) const {
  const auto forward = [](int begin, int end, int size) { return (end - begin + size) % size; };
  return index_of(forward(x_of(from), x_of(other), w), forward(y_of(from), y_of(other), h),
                  forward(z_of(from), z_of(other), d));
}

Grid cube_grid(const Topology& topology) {
  return {topology.sip.cubes_w, topology.sip.cubes_h, false};
}

Grid sip_grid(const Topology::System& system) {
  const Grid node = node_grid(system);
  const auto nodes = static_cast<int>(system.node_count());
  return nodes == 1 ? node : Grid{node.count(), nodes, node.wraps};
}

Grid node_grid(const Topology::System& system) {
  const bool wraps = system.topology != SipTopology::mesh_2d_no_wrap;
  if (joins_all(system.topology)) return {system.w, 1, wraps};
  return {system.w, system.h, wraps, system.d};
}

}  // namespace kernbench::sim
