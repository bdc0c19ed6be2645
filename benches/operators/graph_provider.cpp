#include "benches/operators/graph_provider.h"

#include <algorithm>

#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

namespace {

// The places of the inputs, and those to which the results go.
Places find_places(const OperatorRun& run) {
  const Definition& definition = run.definition();
  Places places(index_of(definition.graph->size()));
  for (NodeId id = 0; id < definition.graph->size(); ++id) {
    const Node& node = definition.node(id);
    if (node.op == Op::input) places[index_of(id)] = {{run.graph_input(node.input), node.column}};
  }
  for (std::size_t i = 0; i < definition.outputs.size(); ++i) {
    places[index_of(definition.outputs[i])].push_back({run.output(i)});
  }
  for (std::size_t i = 0; i < definition.gradients.size(); ++i) {
    const auto& [input, column, node] = definition.gradients[i];
    std::vector<Place>& all = places[index_of(node)];
    // True if another whole input has the same gradient, which already has its place.
    const bool is_shared =
        column < 0 && std::ranges::any_of(all, [](const Place& place) { return place.column < 0; });
    if (!is_shared) all.push_back({run.result(Direction::backward, i), column});
  }
  return places;
}

}  // namespace

GraphProvider::GraphProvider(OperatorRun& run, Plan plan)
    : run_(run), plan_(std::move(plan)), places_(find_places(run)), uses_(places_.size(), 0) {
  for (const Direction direction : kDirections) {
    for (const KernelSpec& kernel : plan_.of(direction)) {
      for (const NodeId id : kernel.loads) ++uses_[index_of(id)];
    }
  }
}

// Intermediate values have memory from the kernel that stores them until the last that loads them.
void GraphProvider::run_kernels(Direction direction) {
  for (const KernelSpec& kernel : plan_.of(direction)) {
    for (const NodeId id : kernel.stores) {
      const Node& node = run_.definition().node(id);
      std::vector<Place>& places = places_[index_of(id)];
      if (places.empty()) places.push_back({run_.make_tensor(node, kernel.name)});
    }
    launch_graph_kernel(run_, kernel.name, kernel, places_);
    for (const NodeId id : kernel.loads) {
      if (--uses_[index_of(id)] == 0) places_[index_of(id)].clear();
    }
  }
}

}  // namespace kernbench::benches::operators
