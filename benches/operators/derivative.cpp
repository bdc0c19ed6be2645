#include "benches/operators/derivative.h"

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::operators {

namespace {

// A gradient has the columns of its value, or one column that stands for all.  It keeps rows of
// tokens even where its value has none: they are summed only at the inputs.
class Gradients {
 public:
  explicit Gradients(Graph& graph)
      : graph_(graph), gradients_(static_cast<std::size_t>(graph.size())) {}

  void seed(const Value& output, const Value& upstream) { add(output.id(), upstream); }
  void run();
  std::optional<Value> of_input(const Value& input);

 private:
  std::optional<Value>& of(NodeId id) { return gradients_[static_cast<std::size_t>(id)]; }
  void add(NodeId id, const Value& gradient);
  // Passes `gradient`, the part of node's gradient that belongs to the operand, on to the operand.
  void pass(const Node& node, NodeId operand, Value gradient);
  void visit(NodeId id, const Value& gradient);
  void visit_product(const Node& node, const Value& gradient);
  // A factor of a gradient, with rows of tokens: a value per expert is looked up for each token.
  Value factor(NodeId id) {
    const Value value = graph_.value(id);
    return value.extents().rows == Rows::experts ? per_token(value, *offsets_) : value;
  }

  Graph& graph_;
  std::vector<std::optional<Value>> gradients_;  // by node
  std::optional<Value> offsets_;                 // of the experts, once they are needed
};

void Gradients::run() {
  for (NodeId id = static_cast<NodeId>(gradients_.size()) - 1; id >= 0; --id) {
    if (of(id)) visit(id, *of(id));
  }
}

void Gradients::add(NodeId id, const Value& gradient) {
  of(id) = of(id) ? *of(id) + gradient : gradient;
}

void Gradients::pass(const Node& node, NodeId operand, Value gradient) {
  const Node& target = graph_[operand];
  if (target.extents.columns < node.extents.columns) {
    const bool stands_for_all = gradient.extents().columns < node.extents.columns;
    gradient =
        stands_for_all ? gradient * static_cast<double>(node.extents.columns) : row_sum(gradient);
  }
  // A gradient that is still a summand is not rounded.
  if (target.is_per_token()) gradient = cast(gradient, target.dtype);
  add(operand, gradient);
}

void Gradients::visit_product(const Node& node, const Value& gradient) {
  const auto [a, b] = node.operands;
  if (a == b) return pass(node, a, gradient * factor(a) * 2);
  pass(node, a, gradient * factor(b));
  pass(node, b, gradient * factor(a));
}

void Gradients::visit(NodeId id, const Value& gradient) {
  const Node node = graph_[id];  // a copy: the graph grows
  const auto [first, second] = node.operands;
  const auto operand = [&] { return factor(node.operands[0]); };
  const auto result = [&] { return factor(id); };
  switch (node.op) {
    case Op::input:
      return;
    case Op::cast:
      return pass(node, first, gradient);
    case Op::power:
      return pass(node, first,
                  gradient * (node.number == 2 ? operand() * 2 : power(operand(), 2) * 3));
    case Op::rsqrt:
      return pass(node, first, gradient * (power(result(), 3) * -0.5));
    case Op::sigmoid:
      return pass(node, first, gradient * (result() - power(result(), 2)));
    case Op::scale:
    case Op::row_sum:
      return pass(node, first, gradient * node.number);
    case Op::shift:
      return pass(node, first, gradient);
    case Op::per_token:
      offsets_ = graph_.value(second);
      return pass(node, first, gradient);
    case Op::add:
      pass(node, first, gradient);
      return pass(node, second, gradient);
    case Op::subtract:
      pass(node, first, gradient);
      return pass(node, second, gradient * -1);
    case Op::multiply:
      return visit_product(node, gradient);
    case Op::token_sum:
    case Op::expert_sums:
      break;
  }
  KB_CHECK(false, "a sum over tokens is no output");
}

std::optional<Value> Gradients::of_input(const Value& input) {
  if (!of(input.id())) return std::nullopt;
  const Value gradient = *of(input.id());
  if (gradient.extents().columns != input.extents().columns) {
    throw Error("KB-O001", ExitCode::collective_misuse,
                "operator graph: the gradient of input {} is the same for all of its {} columns; "
                "such an operator is not supported",
                input.node().input, input.extents().columns);
  }
  if (input.node().is_per_token()) return gradient;
  if (input.extents().rows == Rows::one) return token_sum(gradient);
  return expert_sums(gradient, *offsets_);
}

}  // namespace

std::vector<std::optional<Value>> make_gradients(Graph& graph, std::span<const Value> outputs,
                                                 std::span<const Value> upstream,
                                                 std::span<const Value> inputs) {
  Gradients backward(graph);
  for (std::size_t i = 0; i < outputs.size(); ++i) backward.seed(outputs[i], upstream[i]);
  backward.run();
  std::vector<std::optional<Value>> gradients;
  for (const Value& input : inputs) gradients.push_back(backward.of_input(input));
  return gradients;
}

}  // namespace kernbench::benches::operators
