// A case at one size and type: its graph, forward and backward, with its inputs and results.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
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

// "bf16 (8, 4096, 1280)": type, batch, seq, dim.
std::string describe(const Problem& problem);

// The directions of an operator: it has no backward if none of its inputs wants a gradient.
std::span<const Direction> directions_of(const Definition& definition);

// Builds the graph.  Throws Error KB-O001 or KB-O003 (exit code 21) if the case's inputs or its
// graph are invalid.
Definition define(const OperatorCase& operator_case, const Problem& problem);
// Builds the graph of a part of an operator, as used by a provider.
using Forward = std::function<std::vector<Value>(const Inputs&)>;
Definition define(std::vector<InputSpec> inputs, const Forward& forward, const Problem& problem);

}  // namespace kernbench::benches::operators
