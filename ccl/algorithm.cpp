#include "ccl/algorithm.h"

#include <algorithm>
#include <array>

#include "ccl/algorithms/intercube_allreduce.h"
#include "ccl/closed_form.h"

namespace kernbench::ccl {

std::span<const Algorithm> algorithms() {
  static constexpr std::array kAlgorithms = {
      Algorithm{"intercube_allreduce", "all_reduce",
                "reduce to the centre cube, exchange among SIPs, broadcast back",
                intercube_allreduce, intercube_closed_form},
  };
  return kAlgorithms;
}

const Algorithm* find_algorithm(std::string_view name) {
  const auto all = algorithms();
  const auto found = std::ranges::find(all, name, &Algorithm::name);
  return found == all.end() ? nullptr : &*found;
}

namespace {

int most_neighbours(const sim::Grid& grid) {
  int most = 0;
  for (int node = 0; node < grid.count(); ++node) {
    int count = 0;
    for (int i = 0; i < sim::kCompassCount; ++i) {
      count += grid.neighbour(node, static_cast<sim::Compass>(i)) >= 0;
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

// A queue for each neighbour takes its slots, on the PE that has most of them.  Two thirds of the
// rest are left: of what is kept, even if it is one piece, a summand may arrive and the sum be made
// while the old value is still there.
std::int64_t scratch_elements(const Topology& topology, const sim::IpcqParams& ipcq, DType dtype) {
  const int queues =
      most_neighbours(sim::cube_grid(topology)) + most_neighbours(sim::sip_grid(topology));
  const Bytes taken =
      ipcq.buffer_kind == sim::BufferKind::tcm ? queues * ipcq.depth * ipcq.slot_bytes : 0;
  return std::max<Bytes>(topology.pe.tcm.capacity - taken, 0) / 3 / size_of(dtype);
}

}  // namespace kernbench::ccl
