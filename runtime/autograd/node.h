// The graph of recorded operators.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {
class Simulation;
}

namespace kernbench::autograd {

struct Node;

// The functions that are called when a tensor's gradient is complete, numbered together.
struct Hooks {
  struct OnGradient {
    unsigned number = 0;
    std::function<Tensor(const Tensor& gradient)> call;
  };
  struct AfterAccumulation {
    unsigned number = 0;
    std::function<void(const Tensor& leaf)> call;
  };

  std::vector<OnGradient> on_gradient;
  std::vector<AfterAccumulation> after_accumulation;  // of a leaf
  std::vector<std::function<void()>> on_reach;        // of a leaf: add_reach_hook()
  unsigned count = 0;                                 // of all that were ever registered
};

// The state that autograd keeps with a tensor.
struct Meta {
  bool requires_grad = false;
  Tensor grad;                     // of a leaf, or of a tensor that retains it
  std::shared_ptr<Node> recorded;  // the operator that made it; null: a leaf
  Hooks hooks = {};                // of a leaf; a computed tensor's are with its node
};

// The shape, type and placement that determine a tensor's gradient, and the context that it belongs
// to.
struct GradientForm {
  Shape shape;
  DType dtype = DType::f32;
  ops::Placement placement;  // of the tensor itself
  const runtime::Simulation* simulation = nullptr;
};
GradientForm make_gradient_form(const Tensor& tensor);

// Where the gradient of an operator's input flows: to the node that made the input, or to a leaf;
// nowhere if neither is set.
struct GradientEdge {
  std::shared_ptr<Node> node;
  Tensor leaf;
  GradientForm form;
  std::size_t result = 0;  // of the node, if it has several

  bool wants_gradient() const { return node != nullptr || leaf.defined(); }
};

// Returns the edge to an operator's input; it leads nowhere if the input needs no gradient.
GradientEdge edge_to(const Tensor& input);

// Records that a tensor is a view of another one, its base, which is itself not such a view
// (ADR-0130).  When the base is written, through a view or directly, it gets a new history, and
// its views with it.
struct View {
  std::string name;  // of the operator that made it
  // A view that was made without gradients keeps no base alive: it takes no part in a graph.
  std::shared_ptr<Tensor::Storage> base;
  std::weak_ptr<Tensor::Storage> base_without_gradients;
  // `of` makes the same view of a tensor of the base's shape; `gradient_of_base` computes the
  // base's gradient from the view's.
  std::function<Tensor(const Tensor& base)> of;
  Backward gradient_of_base;
  std::uint64_t history = 0;  // number of the base's node when the view was last used

  bool has_gradients() const { return base != nullptr; }
};

// A recorded operator.  It does not refer to its result, whose Meta refers to it.
struct Node {
  std::uint64_t number = 0;  // larger than those of the nodes that made its inputs
  std::string name;
  std::string module;  // the path of the module whose forward() has recorded it, in a profiled run
  std::vector<GradientEdge> edges;  // one for each input
  Backward backward;                // empty once it has run, unless the graph was retained
  // In place of `backward`, of a function of several results.  A node for each result leads to this
  // one, so that hooks, retained gradients and histories of tensors are always of one result.
  BackwardOfSeveral backward_of_several;
  std::vector<GradientForm> results;  // likewise
  bool materializes = true;  // a result that no gradient reaches gets zeros, else an undefined one
  bool is_fused = false;     // true if elementwise operators of its backward are deferred
  std::optional<Part> part;  // the part of its only input that its result consists of
  Hooks hooks;               // of its result
  std::weak_ptr<Tensor::Storage> retains_grad;  // its result, if that wants its gradient
  std::uint64_t visit = 0;                      // number of the last search that has come by
  Node* next_dead = nullptr;

  bool has_run() const { return !backward && backward_of_several == nullptr; }
  // Frees what was saved for its backward, which cannot run again.
  void free_saved() {
    backward = {};
    backward_of_several = nullptr;
  }
};

// The recorded operators of one simulation: it numbers them and destroys them.  Nodes that only a
// destroyed node refers to are destroyed after it, not recursively: graphs are longer than stacks
// are deep.
class NodeList : public std::enable_shared_from_this<NodeList> {
 public:
  // Returns the list of a simulation.
  static NodeList& of(runtime::Simulation& simulation);

  std::shared_ptr<Node> make(std::string_view name);
  // Returns a number for a search of the graph, which marks the nodes that it has seen.
  std::uint64_t next_visit() { return ++visits_; }

 private:
  void destroy(Node* node);

  std::uint64_t count_ = 0;
  std::uint64_t visits_ = 0;
  Node* dead_ = nullptr;
  bool is_destroying_ = false;
};

}  // namespace kernbench::autograd
