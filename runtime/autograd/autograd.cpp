#include "runtime/autograd/autograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/autograd/view.h"
#include "runtime/autograd/watched_gradient.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/fusion.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::autograd {

GradientEdge edge_to(const Tensor& input) {
  GradientEdge edge;
  if (!input.defined() || !input.requires_grad()) return edge;
  edge.node = input.storage()->autograd->recorded;
  if (edge.node == nullptr) edge.leaf = input;
  edge.form = make_gradient_form(input);
  return edge;
}

namespace {

// Throws KB-F001, KB-F002, KB-F003 unless `output` has the shape, type and placement of the part.
void check_part(std::string_view name, const Tensor& output, const Tensor& input,
                const Part& part) {
  ops::check_operands(name, {input, output}, ops::Types::any);
  const Shape& whole = input.shape();
  const Shape& shape = output.shape();
  const std::size_t dimension = part.dimension;
  const bool fits = shape.rank() == whole.rank() && dimension < whole.rank() &&
                    ops::with_size(shape, dimension, whole[dimension]) == whole &&
                    part.start >= 0 && part.start <= whole[dimension] - shape[dimension];
  if (!fits) {
    ops::refuse_shapes(name,
                       fmt::format("a result {} is no part of {} from {} on along dimension "
                                   "{}",
                                   to_string(shape), to_string(whole), part.start, dimension));
  }
  ops::check_is_uncut(name, input, dimension);
  if (ops::placement_of(output) == ops::placement_of(input)) return;
  ops::refuse_placements(name, input, output, "a part lies as the whole does");
}

}  // namespace

bool needs_grad(const Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad() &&
         is_grad_enabled(*tensor.storage()->simulation);
}

Tensor record(std::string_view name, Tensor output, const std::vector<Tensor>& inputs,
              Backward backward) {
  const bool is_needed =
      std::ranges::any_of(inputs, [](const Tensor& input) { return needs_grad(input); });
  if (!is_needed || is_integral(output.dtype())) return output;
  runtime::check_on_device(output, name);
  const bool is_input = std::ranges::any_of(inputs, [&](const Tensor& input) {
    return input.defined() && input.storage() == output.storage();
  });
  if (is_input || output.storage()->autograd != nullptr) output = output.detach();
  runtime::Simulation& simulation = *output.storage()->simulation;
  auto node = NodeList::of(simulation).make(name);
  if (runtime::RunLog* const log = simulation.run_log()) {
    node->module = log->module_of(simulation.local().rank).path;
  }
  for (const Tensor& input : inputs) node->edges.push_back(edge_to(input));
  node->backward = std::move(backward);
  node->is_fused = ops::fusion_of(output) != nullptr;
  output.storage()->autograd = std::make_shared<Meta>(Meta{true, {}, std::move(node)});
  return output;
}

Tensor record_part(std::string_view name, Tensor output, const Tensor& input, const Part& part,
                   std::function<Tensor(const Tensor& input)> of) {
  if (needs_grad(input)) {
    check_part(name, output, input, part);
    output =
        record(name, std::move(output), {input}, [](const Tensor& dy) { return std::vector{dy}; });
    output.storage()->autograd->recorded->part = part;
  }
  if (of != nullptr) {
    note_view(output, input, name, std::move(of), [whole = input.shape(), part](const Tensor& dy) {
      return ops::assembled("narrow_backward", whole, part.dimension, {{dy, part.start}});
    });
  }
  return output;
}

Tensor record_view(std::string_view name, Tensor output, const Tensor& input,
                   std::function<Tensor(const Tensor& input)> of,
                   std::function<Tensor(const Tensor& grad_output)> gradient) {
  output = record(name, std::move(output), {input},
                  [gradient](const Tensor& dy) { return std::vector{gradient(dy)}; });
  note_view(output, input, name, std::move(of), std::move(gradient));
  return output;
}

// Saves a detached handle unless the tensor is a leaf: a handle to a recorded tensor would keep
// the graph alive, and be part of a cycle if the tensor is the operator's result.
SavedTensor::SavedTensor(const Tensor& tensor) {
  if (!tensor.defined()) return;
  runtime::check_on_device(tensor, "a tensor saved for backward");
  tensor_ = tensor.requires_grad() && tensor.is_leaf() ? tensor : tensor.detach();
  version_ = tensor.storage()->simulation->last_write();
  runtime::mark_memory(tensor_, MemoryKind::activation);
}

const Tensor& SavedTensor::get() const {
  if (!tensor_.defined()) return tensor_;
  runtime::check_may_defer(tensor_, runtime::Touch::reads, [] { return std::string("backward"); });
  if (!runtime::is_written_after(*tensor_.storage(), version_)) return tensor_;
  throw CollectiveError("KB-A005",
                        "one of the variables needed for gradient computation has been modified by "
                        "an inplace operation: tensor '{}' {} {} was written since it was used; "
                        "write it before, or after backward(), or use a clone() of it",
                        tensor_.name(), to_string(tensor_.shape()), name_of(tensor_.dtype()));
}

WatchedGradient::WatchedGradient(const Tensor& gradient) {
  if (!gradient.defined() || !is_shared(gradient)) return;
  gradient_ = &gradient;
  version_ = gradient.storage()->simulation->last_write();
}

void WatchedGradient::check(std::string_view who) const {
  if (gradient_ == nullptr) return;
  if (!runtime::is_written_after(*gradient_->storage(), version_)) return;
  throw CollectiveError("KB-A007",
                        "{} wrote into a gradient that others use too; write into "
                        "autograd::writable(gradient), and return that",
                        who);
}

bool is_shared(const Tensor& tensor) {
  return runtime::has_other_users(tensor);
}

Tensor writable(const Tensor& tensor) {
  return is_shared(tensor) ? ops::make_copy(tensor) : tensor;
}

}  // namespace kernbench::autograd
