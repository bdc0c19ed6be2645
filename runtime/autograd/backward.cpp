// Tensor::backward().

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/gradient_sum.h"
#include "runtime/autograd/node.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

using autograd::GradientEdge;
using autograd::GradientForm;
using autograd::GradientSum;
using autograd::Node;

std::string describe(const Shape& shape, DType dtype, const ops::Placement& placement) {
  return fmt::format("{} {} ({})", to_string(shape), name_of(dtype), to_string(placement));
}

// Throws KB-A006 unless the gradient fits a tensor of this form.
void check_gradient(const Tensor& gradient, const GradientForm& form, std::string_view from) {
  const ops::Placement placement = ops::placement_of(gradient);
  if (gradient.shape() == form.shape && gradient.dtype() == form.dtype &&
      ops::is_gradient_placement(placement, form.placement)) {
    return;
  }
  throw CollectiveError(
      "KB-A006",
      fmt::format("{} - got {} but expected shape compatible with {}; a gradient has its "
                  "tensor's placement, but is replicated where that is partial and may "
                  "be partial where that is replicated",
                  from, describe(gradient.shape(), gradient.dtype(), placement),
                  describe(form.shape, form.dtype, form.placement)));
}

// Throws KB-A006 for a grad() that a user has assigned and that is not the leaf's.
void check_assigned(const Tensor& leaf, const Tensor& grad) {
  if (!grad.defined() || (grad.shape() == leaf.shape() && grad.dtype() == leaf.dtype())) return;
  throw CollectiveError(
      "KB-A006", fmt::format("assigned grad has data of a different {}: tensor '{}' is {} {}, its "
                             "grad '{}' is {} {}",
                             grad.shape() == leaf.shape() ? "type" : "size", leaf.name(),
                             to_string(leaf.shape()), name_of(leaf.dtype()), grad.name(),
                             to_string(grad.shape()), name_of(grad.dtype())));
}

// The gradients of leaves, in the order in which they first came.  They are added to the leaves'
// grad() only when all have come: until then a grad() may itself be a gradient in this pass.
class LeafGradients {
 public:
  GradientSum& of(const Tensor& leaf) {
    const auto [at, is_new] = places_.try_emplace(leaf.storage().get(), sums_.size());
    if (is_new) sums_.push_back({leaf, {}, {}});
    return sums_[at->second].sum;
  }

  void give_to_leaves() {
    std::erase_if(sums_, [](const Sum& sum) { return !sum.leaf.requires_grad(); });
    for (Sum& sum : sums_) {
      check_assigned(sum.leaf, grad_of(sum));
      sum.gradient = sum.sum.take(sum.leaf.shape());
    }
    for (Sum& sum : sums_) {
      // A gradient that becomes a grad(), or shares memory with one, must be nobody else's.
      if (!grad_of(sum).defined() || is_grad_of_leaf(sum.gradient)) {
        sum.gradient = autograd::writable(std::move(sum.gradient));
      }
    }
    for (Sum& sum : sums_) {
      Tensor& grad = grad_of(sum);
      if (grad.defined()) {
        ops::add_into(grad, sum.gradient);
      } else {
        grad = std::move(sum.gradient);
        grad.storage()->name = sum.leaf.name() + ".grad";
      }
    }
  }

 private:
  struct Sum {
    Tensor leaf;
    GradientSum sum;
    Tensor gradient;  // the sum, when it is taken
  };

  static Tensor& grad_of(const Sum& sum) { return sum.leaf.storage()->autograd->grad; }
  // True if it shares memory with a leaf's grad(), which is about to be written.
  bool is_grad_of_leaf(const Tensor& gradient) const {
    return autograd::is_shared(gradient) && std::ranges::any_of(sums_, [&](const Sum& sum) {
             const Tensor& grad = grad_of(sum);
             return grad.defined() && grad.storage()->memory == gradient.storage()->memory;
           });
  }

  std::vector<Sum> sums_;
  std::unordered_map<const Tensor::Storage*, std::size_t> places_;
};

// Runs nodes in descending order of their numbers.  A node's number is larger than those of the
// nodes that made its inputs, so by its turn all nodes that use its result have run.  The order is
// that of the program, the same on every rank.
class BackwardPass {
 public:
  explicit BackwardPass(bool retain_graph) : retain_graph_(retain_graph) {}

  // Returns the sum of the gradients that flow along an edge.
  GradientSum& at(const GradientEdge& edge);
  void run();

 private:
  struct Turn {
    std::shared_ptr<Node> node;
    Shape shape;  // of its result
    GradientSum gradient;
  };

  std::vector<Tensor> run(Node& node, const Tensor& gradient) const;
  void give(const Node& node, std::size_t input, Tensor gradient);

  const bool retain_graph_;
  std::map<std::uint64_t, Turn, std::greater<>> turns_;
  LeafGradients leaves_;
};

GradientSum& BackwardPass::at(const GradientEdge& edge) {
  if (edge.leaf.defined()) return leaves_.of(edge.leaf);
  Turn& turn = turns_[edge.node->number];
  if (turn.node == nullptr) turn = {edge.node, edge.form.shape, {}};
  return turn.gradient;
}

std::vector<Tensor> BackwardPass::run(Node& node, const Tensor& gradient) const {
  if (node.backward == nullptr) {
    throw CollectiveError(
        "KB-A004",
        fmt::format("Trying to backward through the graph a second time (or directly access saved "
                    "tensors after they have already been freed). Saved intermediate values of the "
                    "graph are freed when you call .backward() or autograd.grad(). Specify "
                    "retain_graph=True if you need to backward through the graph a second time: "
                    "the operator is {}",
                    node.name));
  }
  const auto& storage = gradient.storage();
  // A Backward must not write into a gradient that others use; the version shows if it did.
  const bool is_shared = autograd::is_shared(gradient);
  const std::uint64_t version = storage->simulation->last_write();
  std::vector<Tensor> gradients = node.backward(gradient);
  if (is_shared && runtime::is_written_after(*storage, version)) {
    throw CollectiveError("KB-A007",
                          fmt::format("the backward of {} wrote into the gradient of its result, "
                                      "which others use too; write into "
                                      "autograd::writable(grad_output)",
                                      node.name));
  }
  if (!retain_graph_) node.backward = nullptr;
  return gradients;
}

void BackwardPass::give(const Node& node, std::size_t input, Tensor gradient) {
  const GradientEdge& edge = node.edges[input];
  if (!edge.wants_gradient() || !gradient.defined()) return;
  if (node.part) return at(edge).add(std::move(gradient), *node.part);
  check_gradient(
      gradient, edge.form,
      fmt::format("Function {} returned an invalid gradient at index {}", node.name, input));
  at(edge).add(std::move(gradient));
}

void BackwardPass::run() {
  while (!turns_.empty()) {
    Turn turn = std::move(turns_.extract(turns_.begin()).mapped());
    Node& node = *turn.node;
    std::vector<Tensor> gradients = run(node, turn.gradient.take(turn.shape));
    if (gradients.size() != node.edges.size()) {
      throw CollectiveError("KB-A006",
                            fmt::format("Function {} returned an incorrect number of gradients "
                                        "(expected {}, got {})",
                                        node.name, node.edges.size(), gradients.size()));
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) give(node, i, std::move(gradients[i]));
  }
  leaves_.give_to_leaves();
}

// Returns the gradient with which backward() begins.
Tensor first_gradient(const Tensor& output, const Tensor& gradient) {
  const GradientForm form = autograd::gradient_form_of(output);
  if (gradient.defined()) {
    runtime::check_on_device(gradient, "backward");
    check_gradient(gradient, form, "Mismatch of gradient and tensor");
    return ops::dense(gradient);
  }
  if (output.numel() != 1) {
    throw CollectiveError(
        "KB-A003", fmt::format("grad can be implicitly created only for scalar outputs: tensor "
                               "'{}' is {}; sum() it, or give a gradient of that shape",
                               output.name(), to_string(output.shape())));
  }
  Tensor one = ops::make_like(output, "grad", form.shape, form.dtype,
                              ops::gradient_placement(form.placement));
  runtime::fill(*one.storage(), 1);
  return one;
}

}  // namespace

void Tensor::backward(const Tensor& gradient, bool retain_graph) const {
  if (!requires_grad()) {
    throw CollectiveError(
        "KB-A001", fmt::format("element 0 of tensors does not require grad and does not have "
                               "a grad_fn: tensor '{}' was not computed, with gradients "
                               "enabled, from one that requires_grad_()",
                               name()));
  }
  const NoGradGuard no_grad(*checked().simulation);
  Tensor first = first_gradient(*this, gradient);
  const auto& meta = checked().autograd;
  const GradientEdge edge{meta->recorded, meta->recorded == nullptr ? *this : Tensor(),
                          autograd::gradient_form_of(*this)};
  BackwardPass pass(retain_graph);
  pass.at(edge).add(std::move(first));
  pass.run();
}

}  // namespace kernbench
