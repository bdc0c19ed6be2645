#include "ccl/core/algorithm.h"

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>

#include "ccl/core/place.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/topology/sip_network.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

namespace {

// The program's own algorithms.  They register before main(), in any order of files.
struct Registry {
  std::mutex mutex;
  std::deque<Algorithm> algorithms;
};

Registry& registry() {
  static Registry the_one;
  return the_one;
}

template <class Structure>
const Structure& joined(const std::optional<Structure>& place, Neighbours as) {
  if (place.has_value()) return *place;
  throw DeviceError("KB-Q006",
                    "the kernel asks for its place in a {0}, but the PEs that are ranks are not "
                    "joined so; set 'neighbours: {0}' in ccl.yaml",
                    name_of(as));
}

}  // namespace

std::vector<Piece> cut(std::int64_t begin, std::int64_t total, int count) {
  std::vector<Piece> parts;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = total * i / count;
    parts.push_back({begin + first, total * (i + 1) / count - first});
  }
  return parts;
}

std::string_view name_of(Neighbours neighbours) {
  constexpr std::array<std::string_view, 3> kNames = {"grid", "ring", "tree"};
  return name_in(kNames, neighbours);
}

const GridPlace& KernelArgs::grid() const {
  return joined(place->grid, Neighbours::grid);
}

const RingPlace& KernelArgs::ring() const {
  return joined(place->ring, Neighbours::ring);
}

const TreePlace& KernelArgs::tree() const {
  return joined(place->tree, Neighbours::tree);
}

std::vector<const Algorithm*> algorithms() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& algorithm : library_algorithms()) all.push_back(&algorithm);
  const std::lock_guard lock(registry().mutex);
  for (const Algorithm& algorithm : registry().algorithms) all.push_back(&algorithm);
  return all;
}

const Algorithm* find_algorithm(std::string_view name) {
  const auto all = algorithms();
  const auto found = std::ranges::find(all, name, &Algorithm::name);
  return found == all.end() ? nullptr : *found;
}

bool provides(const Topology& topology, Network network) {
  if (network == Network::any) return true;
  if (network == Network::joins_all) return sim::SipNetwork(topology).joins_all();
  return topology.system.network_switch.sums.has_value() && topology.system.node_count() == 1;
}

bool serves(const Algorithm& algorithm, distributed::CollectiveKind kind) {
  const std::string_view wanted = traits_of(kind).name;
  std::string_view names = algorithm.collective;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(", "), names.size());
    if (names.substr(0, end) == wanted) return true;
    names.remove_prefix(std::min(end + 2, names.size()));
  }
  return false;
}

std::string_view describe_misfit(const Algorithm& algorithm, const GroupShape& shape) {
  return algorithm.misfit == nullptr ? std::string_view() : algorithm.misfit(shape);
}

bool is_of_library(const Algorithm& algorithm) {
  return std::ranges::any_of(library_algorithms(),
                             [&](const Algorithm& one) { return &one == &algorithm; });
}

bool register_algorithm(const Algorithm& algorithm) {
  if (algorithm.name == "auto" || find_algorithm(algorithm.name) != nullptr) {
    throw UsageError("KB-U006", "an algorithm named '{}' exists already; give yours another name",
                     algorithm.name);
  }
  const std::lock_guard lock(registry().mutex);
  Algorithm& added = registry().algorithms.emplace_back(algorithm);
  if (added.kernel != nullptr) added.shapes = kShapesOfKernels;
  return true;
}

// A third of the scratch that queues leave: for every value that is kept, even if it is one piece,
// a summand may arrive and the sum be made while the old value still exists.
std::int64_t scratch_elements(const Topology& topology, const sim::IpcqParams& ipcq, int queues,
                              DType dtype) {
  const Bytes taken =
      ipcq.buffer_kind == sim::BufferKind::tcm ? queues * ipcq.depth * ipcq.slot_bytes : 0;
  return std::max<Bytes>(topology.pe.tcm.capacity - taken, 0) / 3 / size_of(dtype);
}

}  // namespace kernbench::ccl
