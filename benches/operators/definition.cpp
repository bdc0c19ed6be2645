#include "benches/operators/definition.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/operators/derivative.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::operators {

namespace {

std::vector<NodeId> ids_of(std::span<const Value> values) {
  std::vector<NodeId> ids;
  for (const Value& value : values) ids.push_back(value.id());
  return ids;
}

void check_outputs(std::span<const Value> outputs) {
  const bool is_right = !outputs.empty() && std::ranges::all_of(outputs, [](const Value& output) {
    return output.node().is_per_token() && output.node().op != Op::input;
  });
  if (is_right) return;
  throw Error(
      "KB-O003", ExitCode::collective_misuse,
      "operator graph: forward() returns computed values with rows of tokens, at least one");
}

// The nodes that stand for inputs that want a gradient: whole ones and columns.
std::vector<Value> differentiable_inputs(const Definition& definition) {
  std::vector<Value> values;
  for (NodeId id = 0; id < definition.graph->size(); ++id) {
    const Node& node = definition.node(id);
    if (node.op != Op::input) continue;
    if (definition.inputs[static_cast<std::size_t>(node.input)].wants_gradient) {
      values.push_back(definition.graph->value(id));
    }
  }
  return values;
}

// A column and the whole would both be the gradient of the column.
void check_columns(const Definition& definition) {
  const auto& all = definition.gradients;
  const auto clash = std::ranges::adjacent_find(
      all, [](const auto& a, const auto& b) { return a.input == b.input && a.column == -1; });
  if (clash == all.end()) return;
  throw Error("KB-O003", ExitCode::collective_misuse,
              fmt::format("operator graph: input '{}' is used as a whole and by columns",
                          definition.inputs[static_cast<std::size_t>(clash->input)].name));
}

void add_gradients(Definition& definition, std::span<const Value> outputs) {
  Graph& graph = *definition.graph;
  const std::vector<Value> wanted = differentiable_inputs(definition);
  std::vector<Value> upstream;
  for (const Value& output : outputs) {
    const auto number = static_cast<int>(definition.inputs.size() + upstream.size());
    upstream.push_back(graph.input(number, output.extents(), output.dtype()));
  }
  definition.upstream = ids_of(upstream);
  const auto gradients = gradients_of(graph, outputs, upstream, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!gradients[i]) continue;
    const Node& input = wanted[i].node();
    definition.gradients.push_back({input.input, input.column, gradients[i]->id()});
  }
  std::ranges::stable_sort(definition.gradients, [](const auto& a, const auto& b) {
    return std::pair(a.input, a.column) < std::pair(b.input, b.column);
  });
  check_columns(definition);
}

std::int64_t element_count(const Definition& definition, const Node& node, std::int64_t tokens) {
  const auto rows = [&]() -> std::int64_t {
    switch (node.extents.rows) {
      case Rows::tokens:
        return tokens;
      case Rows::experts:
        return expert_count(definition.inputs);
      case Rows::one:
        break;
    }
    return 1;
  };
  return rows() * node.extents.columns;
}

}  // namespace

std::string_view name_of(Direction direction) {
  return direction == Direction::forward ? "fwd" : "bwd";
}

std::vector<NodeId> Definition::results(Direction direction) const {
  if (direction == Direction::forward) return outputs;
  std::vector<NodeId> nodes;
  for (const GradientValue& gradient : gradients) nodes.push_back(gradient.node);
  return nodes;
}

Definition define(const OperatorCase& operator_case, const Problem& problem) {
  return define(
      operator_case.build_inputs(problem),
      [&](const Inputs& inputs) { return operator_case.forward(inputs); }, problem);
}

Definition define(std::vector<InputSpec> inputs, const Forward& forward, const Problem& problem) {
  Definition definition{.problem = problem,
                        .inputs = std::move(inputs),
                        .graph = std::make_unique<Graph>(),
                        .outputs = {},
                        .upstream = {},
                        .gradients = {}};
  const std::vector<Value> outputs = forward(Inputs(*definition.graph, definition.inputs));
  check_outputs(outputs);
  definition.outputs = ids_of(outputs);
  definition.forward_end = definition.graph->size();
  add_gradients(definition, outputs);
  return definition;
}

Bytes least_bytes(const Definition& definition, Direction direction, std::int64_t tokens) {
  const Graph& graph = *definition.graph;
  std::vector<NodeId> results = definition.results(direction);
  std::ranges::sort(results);
  const auto repeated = std::ranges::unique(results);
  results.erase(repeated.begin(), repeated.end());
  std::vector<bool> given(static_cast<std::size_t>(graph.size()), false);
  if (direction == Direction::backward) {
    for (const NodeId id : definition.outputs) given[static_cast<std::size_t>(id)] = true;
  }
  const std::vector<bool> reached = reachable(graph, results, given);
  Bytes bytes = 0;
  const auto bytes_of = [&](NodeId id) {
    return element_count(definition, graph[id], tokens) * size_of(graph[id].dtype);
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    if (reached[at] && (graph[id].op == Op::input || given[at])) bytes += bytes_of(id);
  }
  for (const NodeId id : results) bytes += bytes_of(id);
  return bytes;
}

}  // namespace kernbench::benches::operators
