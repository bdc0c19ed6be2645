// The graph of recorded operators.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/placement.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::autograd {

struct Node;

// What a tensor knows of autograd.
struct Meta {
  bool requires_grad = false;
  Tensor grad;                     // of a leaf
  std::shared_ptr<Node> recorded;  // what made it; null: a leaf
};

// What a gradient of a tensor must look like.
struct GradientForm {
  Shape shape;
  DType dtype = DType::f32;
  ops::Placement placement;  // of the tensor itself
};
GradientForm gradient_form_of(const Tensor& tensor);

// Where the gradient of an operator's input goes: to what made the input, or to a leaf, or, with
// neither, nowhere.
struct GradientEdge {
  std::shared_ptr<Node> node;
  Tensor leaf;
  GradientForm form;

  bool wants_gradient() const { return node != nullptr || leaf.defined(); }
};

// To an operator's input; nowhere if it needs no gradient.
GradientEdge edge_to(const Tensor& input);

// How a tensor is a view of another one, its base, which is no such view itself (ADR-0162).  A base
// that is written through a view, or beside it, has another history from then on, and its views
// with it.
struct View {
  std::string name;  // of the operator that made it
  // A view that was made without gradients keeps no base alive: it takes no part in a graph.
  std::shared_ptr<Tensor::Storage> base;
  std::weak_ptr<Tensor::Storage> base_without_gradients;
  // The same view of a tensor of the base's shape, and the gradient of the base from the view's.
  std::function<Tensor(const Tensor& base)> of;
  Backward gradient_of_base;
  std::uint64_t history = 0;  // the number of what had made the base when the view was last used

  bool has_gradients() const { return base != nullptr; }
};

// A recorded operator.  It does not refer to its result, whose Meta refers to it.
struct Node {
  std::uint64_t number = 0;  // larger than those of what made its inputs
  std::string name;
  std::vector<GradientEdge> edges;  // one for each input
  Backward backward;                // none once it has run, unless the graph was retained
  std::optional<Part> part;         // of its only input, of which its result has the elements
  Node* next_dead = nullptr;
};

// The recorded operators of one simulation: their numbers, and how they end.  What a node alone
// refers to ends with it, but not inside of its end: graphs are longer than stacks are deep.
class NodeList : public std::enable_shared_from_this<NodeList> {
 public:
  std::shared_ptr<Node> make(std::string_view name);

 private:
  void destroy(Node* node);

  std::uint64_t count_ = 0;
  Node* dead_ = nullptr;
  bool is_destroying_ = false;
};

}  // namespace kernbench::autograd
