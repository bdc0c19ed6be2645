#include <fmt/format.h>

#include <algorithm>

#include "benches/operators/derivative.h"
#include "benches/operators/operator_case.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::operators {

namespace {

std::vector<NodeId> list_ids(std::span<const Value> values) {
  std::vector<NodeId> ids;
  for (const Value& value : values) ids.push_back(value.id());
  return ids;
}

[[noreturn]] void refuse_input(const InputSpec& spec, std::string_view why) {
  throw Error("KB-O003", ExitCode::collective_misuse, "operator case: input {}: {}",
              in_quotes(spec.name), why);
}

void check_elements(const InputSpec& spec) {
  if (spec.elements.empty()) return;
  if (spec.extents.rows == Rows::tokens) {
    refuse_input(spec, "elements are given of parameters and offsets; those of tokens are drawn");
  }
  const std::int64_t rows = spec.extents.rows == Rows::experts ? spec.experts : 1;
  const auto wanted = static_cast<std::size_t>(rows * spec.extents.columns);
  if (spec.elements.size() != wanted) {
    refuse_input(spec,
                 fmt::format("it has {} elements, and {} are given", wanted, spec.elements.size()));
  }
  const bool is_offsets = spec.extents.rows == Rows::one && spec.experts > 0;
  if (is_offsets && !std::ranges::is_sorted(spec.elements)) {
    refuse_input(spec, "an expert's offset is not below that of the one before");
  }
}

void check_inputs(std::span<const InputSpec> inputs) {
  const std::int64_t experts = expert_count(inputs);
  for (const InputSpec& spec : inputs) {
    if (spec.name.empty()) refuse_input(spec, "inputs have names");
    if (std::ranges::count(inputs, spec.name, &InputSpec::name) > 1) {
      refuse_input(spec, "there are two of that name");
    }
    if (spec.extents.columns < 1) refuse_input(spec, "inputs have columns, at least one");
    const bool is_of_experts = spec.experts > 0 || spec.extents.rows == Rows::experts;
    if (is_of_experts && (spec.experts < 1 || spec.experts != experts)) {
      refuse_input(spec, fmt::format("it is of {} experts, another input of {}; an operator has "
                                     "one set of experts",
                                     spec.experts, experts));
    }
    check_elements(spec);
  }
}

// Checks that there is one set of experts, as the kernels, the derivative and the reference assume.
void check_offsets(const Graph& graph, std::int64_t experts) {
  std::optional<NodeId> offsets;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op != Op::per_token && node.op != Op::expert_sums) continue;
    const NodeId own = node.operands[1];
    if (graph[own].extents.columns != experts + 1) {
      throw Error(
          "KB-O001", ExitCode::collective_misuse,
          "operator graph: {} with offsets [1, {}] and {} experts; offsets are [1, experts + 1]",
          name_of(node.op), graph[own].extents.columns, experts);
    }
    if (offsets && *offsets != own) {
      throw Error("KB-O001", ExitCode::collective_misuse,
                  "operator graph: {} with other offsets than before; an operator has one set of "
                  "experts, and one tensor of offsets",
                  name_of(node.op));
    }
    offsets = own;
  }
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

// The nodes of inputs that want a gradient, whole or by column.
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

// Refuses an input used both as a whole and by columns, since both would have a gradient of the
// column.
void check_columns(const Definition& definition) {
  const auto& all = definition.gradients;
  const auto clash = std::ranges::adjacent_find(
      all, [](const auto& a, const auto& b) { return a.input == b.input && a.column == -1; });
  if (clash == all.end()) return;
  throw Error("KB-O003", ExitCode::collective_misuse,
              "operator graph: input '{}' is used as a whole and by columns",
              definition.inputs[static_cast<std::size_t>(clash->input)].name);
}

void add_gradients(Definition& definition, std::span<const Value> outputs) {
  Graph& graph = *definition.graph;
  const std::vector<Value> wanted = differentiable_inputs(definition);
  std::vector<Value> upstream;
  for (const Value& output : outputs) {
    const auto number = static_cast<int>(definition.inputs.size() + upstream.size());
    upstream.push_back(graph.input(number, output.extents(), output.dtype()));
  }
  definition.upstream = list_ids(upstream);
  const auto gradients = make_gradients(graph, outputs, upstream, wanted);
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

}  // namespace

std::string_view name_of(Direction direction) {
  return direction == Direction::forward ? "fwd" : "bwd";
}

std::string describe(const Problem& problem) {
  const auto& [batch, seq, dim] = problem.size;
  return fmt::format("{} ({}, {}, {})", name_of(problem.dtype), batch, seq, dim);
}

std::span<const Direction> directions_of(const Definition& definition) {
  return std::span(kDirections).first(definition.gradients.empty() ? 1 : 2);
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
  check_inputs(definition.inputs);
  const std::vector<Value> outputs = forward(Inputs(*definition.graph, definition.inputs));
  check_outputs(outputs);
  check_offsets(*definition.graph, expert_count(definition.inputs));
  definition.outputs = list_ids(outputs);
  definition.forward_end = definition.graph->size();
  add_gradients(definition, outputs);
  return definition;
}

}  // namespace kernbench::benches::operators
