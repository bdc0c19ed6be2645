// A case at one size and type: its graph, forward and backward, and what goes in and out.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "benches/operators/graph.h"
#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

enum class Direction : std::uint8_t { forward, backward };
inline constexpr std::array kDirections = {Direction::forward, Direction::backward};
std::string_view name_of(Direction direction);  // "fwd", "bwd", as files are named

// The gradient of an input, or of one of its columns.
struct GradientValue {
  int input = 0;
  int column = -1;  // -1: all of them
  NodeId node = -1;
};

struct Definition {
  Problem problem;
  std::vector<InputSpec> inputs;
  std::unique_ptr<Graph> graph;
  std::vector<NodeId> outputs;
  std::vector<NodeId> upstream;          // gradients of the outputs: input number inputs.size() + i
  std::vector<GradientValue> gradients;  // by input, then column
  NodeId forward_end = 0;                // nodes from here on are of the backward graph

  // In the order in which they are checked and shown.
  std::vector<NodeId> results(Direction direction) const;
  const Node& node(NodeId id) const { return (*graph)[id]; }
};

// Throws Error KB-O001 or KB-O003 (exit code 21) if the case's graph is none.
Definition define(const OperatorCase& operator_case, const Problem& problem);
// The same for a part of an operator, as a provider may have one.
using Forward = std::function<std::vector<Value>(const Inputs&)>;
Definition define(std::vector<InputSpec> inputs, const Forward& forward, const Problem& problem);

// What must be moved from and to HBM, whoever computes it, on each PE with so many tokens: what the
// results depend on is loaded once, they are stored once.  Backward may use what forward returned.
Bytes least_bytes(const Definition& definition, Direction direction, std::int64_t tokens);

}  // namespace kernbench::benches::operators
