// An operator to be measured is one class in one file (ADR-0140;
// benches/operators/writing-a-case.md).
//
// The interface is that of the Python original's DiffCase: build_inputs(), forward(), and who
// computes it. Gradients follow from forward(): every input that wants one gets it.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/operators/graph.h"

namespace kernbench::benches::operators {

// The size of an operator's inputs.
struct ProblemSize {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  std::int64_t dim = 1;

  std::int64_t tokens() const { return batch * seq; }
  friend bool operator==(const ProblemSize&, const ProblemSize&) = default;
};

struct Problem {
  ProblemSize size;
  DType dtype = DType::bf16;
  std::uint64_t seed = 0;
};

// A tensor that an operator is given.  Elements are mean + spread * z, with z of mean 0, variance 1
// and at most 3.47 away from 0; or those that are given.
struct InputSpec {
  std::string name;
  Extents extents = {};
  DType dtype = DType::f32;
  bool wants_gradient = true;
  double mean = 0;
  double spread = 1;
  std::vector<float> elements = {};
  std::int64_t experts = 0;  // for inputs with a row per expert
  // True if some rows of tokens with mean 0 are nearly 0, where an eps counts, and some are 0.  An
  // operator that has no value at 0 (KB-N041) sets it to false.
  bool has_small_rows = true;
};

// [tokens, dim] of the problem's type, its rows spread over all PEs of a SIP.
InputSpec token_input(std::string name, const Problem& problem);
// [1, columns], or [experts, columns], of the problem's type, a copy on each PE.  Its gradient is
// f32, a summand on each PE.
InputSpec parameter(std::string name, const Problem& problem, std::int64_t columns, double mean,
                    double spread);
InputSpec expert_parameter(std::string name, const Problem& problem, std::int64_t experts,
                           std::int64_t columns, double mean, double spread);
// [1, experts + 1] f32: where each expert's tokens begin, and where the last one's end.
InputSpec expert_offsets(std::string name, std::vector<float> offsets);

// The number of experts of these inputs; 0 if they have none.
std::int64_t expert_count(std::span<const InputSpec> specs);

// The inputs as values of a graph, by name.
class Inputs {
 public:
  Inputs(Graph& graph, std::span<const InputSpec> specs) : graph_(graph), specs_(specs) {}

  // The input of that name.  Throws Error KB-O002 (exit code 21) if there is no such input.
  Value operator[](std::string_view name) const;
  // One column: [1, 1] or [experts, 1].
  Value column(std::string_view name, int column) const;

 private:
  int find_index(std::string_view name) const;

  Graph& graph_;
  const std::span<const InputSpec> specs_;
};

class OperatorRun;

// An implementation of an operator.  It is made once for each run on a device: forward(), then
// backward().
class Provider {
 public:
  Provider() = default;
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  virtual ~Provider() = default;

  virtual void forward() = 0;
  virtual void backward() = 0;
};

struct ProviderInfo {
  std::string name;   // in names of files, as a case's: "compiled_fused"
  std::string title;  // of columns: "Compiled Fused"
  std::function<std::unique_ptr<Provider>(OperatorRun&)> make;
};

// Calls info.make(run).  Throws Error KB-O003 (exit code 21) if that returns no provider.
std::unique_ptr<Provider> make_provider(const ProviderInfo& info, OperatorRun& run);

// A provider with a kernel for each node of forward()'s graph and of its derivative; values pass
// through HBM.
ProviderInfo naive();
// A provider for the same graphs, fused as far as fusion.h can.
ProviderInfo compiled();
// Handwritten code of one direction, which launches its kernels by OperatorRun::launch().
using LaunchKernels = void (*)(OperatorRun& run);
ProviderInfo fused(LaunchKernels forward, LaunchKernels backward);

class OperatorCase {
 public:
  OperatorCase() = default;
  OperatorCase(const OperatorCase&) = delete;
  OperatorCase& operator=(const OperatorCase&) = delete;
  virtual ~OperatorCase() = default;

  // The name in `kernbench bench --case NAME` and in file names: letters, digits, '_' and '-'.
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  // its formula

  virtual std::vector<InputSpec> build_inputs(const Problem& problem) const = 0;

  // The definition of the operator, against which every provider is checked.  The outputs have rows
  // of tokens.
  virtual std::vector<Value> forward(const Inputs& inputs) const = 0;

  // The first provider is naive(), with which the others are compared; SpeedUp is that of the one
  // named "fused", or else of the last.
  virtual std::vector<ProviderInfo> providers() const = 0;

  // The sizes that are checked before timing: (2, 128, 4096), (8, 4096, 1280), (1, 32768, 1280).
  virtual std::vector<ProblemSize> checked_sizes() const;

  // The sizes that are timed: batch 1, 2, 4, 8 x seq 1024 to 8192 x dim 2048, 4096.
  virtual std::vector<ProblemSize> sizes() const;
};

// Enters a case into the program's list.  Called by KERNBENCH_OPERATOR_CASE.  Throws UsageError
// KB-U006 if its name is taken.
bool register_operator_case(std::unique_ptr<OperatorCase> operator_case);

}  // namespace kernbench::benches::operators

// Enters a class of this file into the program's cases.  As for a bench, the file belongs to the
// executable.
#define KERNBENCH_OPERATOR_CASE(Case)                       \
  static const bool Case##_is_registered [[maybe_unused]] = \
      ::kernbench::benches::operators::register_operator_case(std::make_unique<Case>())

namespace kernbench::benches::operators {

// A case at one size and type: its graph, forward and backward, with its inputs and results.

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

  // The two directions, in the order in which they are checked and shown.
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
