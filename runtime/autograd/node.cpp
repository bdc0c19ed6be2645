#include "runtime/autograd/node.h"

#include <utility>

#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::autograd {

GradientForm make_gradient_form(const Tensor& tensor) {
  return {tensor.shape(), tensor.dtype(), ops::placement_of(tensor),
          tensor.storage()->simulation.get()};
}

namespace {

struct Nodes final : runtime::Attachment {
  void forget_ranks() override {}  // a rank's tensors may outlive it, and their graph with them

  const std::shared_ptr<NodeList> list = std::make_shared<NodeList>();
};

}  // namespace

NodeList& NodeList::of(runtime::Simulation& simulation) {
  return *simulation.attachments().get<Nodes>().list;
}

std::shared_ptr<Node> NodeList::make(std::string_view name) {
  std::shared_ptr<Node> node(new Node,
                             [list = shared_from_this()](Node* dead) { list->destroy(dead); });
  node->number = ++count_;
  node->name = name;
  return node;
}

void NodeList::destroy(Node* node) {
  node->next_dead = std::exchange(dead_, node);
  if (is_destroying_) return;  // the outer call destroys it
  is_destroying_ = true;
  while (dead_ != nullptr) {
    Node* const next = std::exchange(dead_, dead_->next_dead);
    delete next;
  }
  is_destroying_ = false;
}

}  // namespace kernbench::autograd
