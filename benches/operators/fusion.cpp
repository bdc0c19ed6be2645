#include "benches/operators/fusion.h"

#include <algorithm>

namespace kernbench::benches::operators {

namespace {

using Flags = std::vector<bool>;  // by node

bool has(const Flags& flags, NodeId id) {
  return flags[static_cast<std::size_t>(id)];
}

Flags make_no_flags(const Definition& definition) {
  return Flags(static_cast<std::size_t>(definition.graph->size()), false);
}

void set(Flags& flags, NodeId id) {
  flags[static_cast<std::size_t>(id)] = true;
}

void set(Flags& flags, const std::vector<NodeId>& ids) {
  for (const NodeId id : ids) set(flags, id);
}

std::vector<NodeId> ids_in(const Flags& flags) {
  std::vector<NodeId> ids;
  for (std::size_t id = 0; id < flags.size(); ++id) {
    if (flags[id]) ids.push_back(static_cast<NodeId>(id));
  }
  return ids;
}

// A kernel that computes `wanted` from the inputs and the nodes in `given`.
KernelSpec kernel_for(const Definition& definition, std::string name,
                      const std::vector<NodeId>& wanted, const Flags& given) {
  KernelSpec kernel{.name = std::move(name), .loads = {}, .computes = {}, .stores = {}};
  const Flags reached = reachable(*definition.graph, wanted, given);
  for (const NodeId id : ids_in(reached)) {
    const bool is_there = definition.node(id).op == Op::input || has(given, id);
    (is_there ? kernel.loads : kernel.computes).push_back(id);
  }
  Flags stored = make_no_flags(definition);
  set(stored, wanted);
  kernel.stores = ids_in(stored);
  return kernel;
}

std::vector<KernelSpec> kernel_for_each(const Definition& definition,
                                        const std::vector<NodeId>& results, Flags& stored) {
  std::vector<KernelSpec> kernels;
  for (const NodeId id : ids_in(reachable(*definition.graph, results, stored))) {
    const Node& node = definition.node(id);
    if (node.op == Op::input || has(stored, id)) continue;
    kernels.push_back(kernel_for(definition, std::string(name_of(node.op)), {id}, stored));
    set(stored, id);
  }
  return kernels;
}

bool is_column(const Node& node) {
  return node.is_per_token() && node.extents.columns == 1 && node.op != Op::input;
}

// The nearest columns among `candidates` from which `wanted` is computed, beside the nodes in
// `given`.
std::vector<NodeId> columns_before(const Definition& definition, const std::vector<NodeId>& wanted,
                                   const Flags& candidates, const Flags& given) {
  Flags columns = make_no_flags(definition);
  Flags stops = given;
  for (const NodeId id : ids_in(candidates)) {
    if (has(given, id) || !is_column(definition.node(id))) continue;
    set(columns, id);
    set(stops, id);
  }
  std::vector<NodeId> found = ids_in(reachable(*definition.graph, wanted, stops));
  std::erase_if(found, [&](NodeId id) { return !has(columns, id); });
  return found;
}

// One kernel for the rows, then one for the sums over tokens, which uses what the first has stored.
std::vector<KernelSpec> fused_kernels(const Definition& definition,
                                      const std::vector<NodeId>& results, Flags given) {
  std::vector<NodeId> rows;
  std::vector<NodeId> sums;
  for (const NodeId id : results) {
    (definition.node(id).is_sum_of_tokens() ? sums : rows).push_back(id);
  }
  const Flags all(given.size(), true);
  for (const NodeId id : columns_before(definition, sums, all, given)) rows.push_back(id);
  std::vector<KernelSpec> kernels;
  if (!rows.empty()) kernels.push_back(kernel_for(definition, "compiled_rows", rows, given));
  set(given, rows);
  if (!sums.empty()) kernels.push_back(kernel_for(definition, "compiled_sums", sums, given));
  return kernels;
}

// The results that have to be computed: a gradient may be an input itself.
std::vector<NodeId> computed_results(const Definition& definition, Direction direction) {
  std::vector<NodeId> results = definition.results(direction);
  std::erase_if(results, [&](NodeId id) { return definition.node(id).op == Op::input; });
  return results;
}

}  // namespace

Plan plan_node_by_node(const Definition& definition) {
  Plan plan;
  Flags stored = make_no_flags(definition);
  for (const Direction direction : kDirections) {
    plan.of(direction) =
        kernel_for_each(definition, computed_results(definition, direction), stored);
  }
  return plan;
}

Plan plan_fused(const Definition& definition) {
  const std::vector<NodeId> gradients = computed_results(definition, Direction::backward);
  Flags of_forward = make_no_flags(definition);
  for (NodeId id = 0; id < definition.forward_end; ++id) set(of_forward, id);
  Flags given = make_no_flags(definition);
  std::vector<NodeId> from_forward = definition.outputs;
  set(given, from_forward);
  for (const NodeId id : columns_before(definition, gradients, of_forward, given)) {
    from_forward.push_back(id);
  }
  Plan plan;
  plan.forward = fused_kernels(definition, from_forward, make_no_flags(definition));
  set(given, from_forward);
  plan.backward = fused_kernels(definition, gradients, given);
  return plan;
}

}  // namespace kernbench::benches::operators
