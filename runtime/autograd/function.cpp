// Function, AutogradContext: functions with derivatives of their own.

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/in_place.h"
#include "runtime/autograd/view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::autograd {

namespace {

bool contains(const std::vector<Tensor>& tensors, const Tensor& tensor) {
  return tensor.defined() && std::ranges::any_of(tensors, [&](const Tensor& one) {
           return one.defined() && one.storage() == tensor.storage();
         });
}

// "Scale" of "(anonymous namespace)::Scale".
std::string readable(std::string_view type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(std::string(type).c_str(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? text.get() : std::string(type);
  const std::size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

[[noreturn]] void refuse_marks(std::string_view name, std::string_view what) {
  throw CollectiveError("KB-A030", "{}: {}", name, what);
}

void check_dirty(std::string_view name, const std::vector<Tensor>& dirty,
                 const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  for (const Tensor& tensor : dirty) {
    if (!contains(inputs, tensor)) {
      refuse_marks(name, "mark_dirty() was given a tensor that is no argument of apply()");
    }
    if (!contains(outputs, tensor)) {
      refuse_marks(name,
                   "Some elements marked as dirty during the forward method were not returned as "
                   "output. The inputs that are modified inplace must all be outputs of the "
                   "Function.");
    }
    if (outputs.size() > 1 && tensor.storage()->view != nullptr) {
      refuse_marks(name,
                   "If your Function modifies inplace an input that is a view of another Tensor, "
                   "your Function cannot return more than one Tensor. This is not supported by the "
                   "current autograd engine. You should either make sure the input is not a view "
                   "(using .clone() for example) or make your Function only return one Tensor "
                   "(potentially splitting it into two Functions: one doing the inplace that "
                   "returns a single Tensor and a second one that does the other operations).");
    }
  }
}

// A node of its own for each result, which leads to the function's.
std::shared_ptr<Node> node_of_result(NodeList& list, const std::shared_ptr<Node>& function,
                                     std::size_t result) {
  auto node = list.make(function->name);
  node->edges.push_back({function, {}, function->results[result], result});
  node->backward = [](const Tensor& dy) { return std::vector{dy}; };
  return node;
}

// Records a function whose only result is the input that it has written, number `written`.
void record_write(std::string_view name, const std::vector<Tensor>& inputs, std::size_t written,
                  const BackwardOfSeveral& backward) {
  std::vector<Tensor> operands = inputs;
  std::rotate(operands.begin(), operands.begin() + written, operands.begin() + written + 1);
  record_in_place(name, operands, [backward, written](const Tensor& dy) {
    std::vector<Tensor> gradients = backward({dy});
    if (written < gradients.size()) {
      std::rotate(gradients.begin(), gradients.begin() + written, gradients.begin() + written + 1);
    }
    return gradients;
  });
}

}  // namespace

std::vector<Tensor> AutogradContext::get_saved_variables() const {
  std::vector<Tensor> tensors;
  for (const SavedTensor& saved : saved_) tensors.push_back(saved.get());
  return tensors;
}

std::vector<Tensor> FunctionCall::run() {
  name_ = readable(type);
  for (const Tensor& input : inputs) {
    context->needs_grad_.push_back(input.defined() && !input.is_host() &&
                                   autograd::needs_grad(input));
  }
  const auto any = std::ranges::find(context->needs_grad_, true);
  const bool is_recorded = any != context->needs_grad_.end();
  const Tensor wants = is_recorded ? inputs[any - context->needs_grad_.begin()] : Tensor();
  std::vector<Tensor> outputs;
  {
    std::optional<NoGradGuard> no_grad;
    if (is_recorded) no_grad.emplace(wants);
    outputs = forward();
  }
  check_dirty(name_, context->dirty_, inputs, outputs);
  if (is_recorded) record(wants, outputs);
  context->dirty_.clear();
  context->constants_.clear();
  return outputs;
}

void FunctionCall::record(const Tensor& wants, std::vector<Tensor>& outputs) {
  for (const Tensor& dirty : context->dirty_) check_in_place(name_, {dirty, wants});
  for (const Tensor& tensor : context->to_save_) context->saved_.emplace_back(tensor);
  context->to_save_.clear();
  // The closure alone owns the context, so that both end with the graph.
  const BackwardOfSeveral kept = [kept = context,
                                  call = backward](const std::vector<Tensor>& grad_outputs) {
    return call(grad_outputs);
  };
  if (outputs.size() == 1 && contains(context->dirty_, outputs.front())) {
    const auto written = std::ranges::find_if(inputs, [&](const Tensor& input) {
      return input.defined() && input.storage() == outputs.front().storage();
    });
    return record_write(name_, inputs, static_cast<std::size_t>(written - inputs.begin()), kept);
  }
  NodeList& list = NodeList::of(*wants.storage()->simulation);
  const std::shared_ptr<Node> node = list.make(name_);
  for (const Tensor& input : inputs) node->edges.push_back(edge_to(input));
  node->backward_of_several = kept;
  node->materializes = context->materializes_;
  for (const Tensor& output : outputs) {
    node->results.push_back(output.defined() ? make_gradient_form(output) : GradientForm{});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    if (is_constant(output)) continue;
    if (contains(context->dirty_, output)) {
      set_history(output, node_of_result(list, node, i));
      continue;
    }
    if (contains(inputs, output) || output.storage()->autograd != nullptr) output = output.detach();
    output.storage()->autograd =
        std::make_shared<Meta>(Meta{true, {}, node_of_result(list, node, i)});
  }
}

bool FunctionCall::is_constant(const Tensor& output) const {
  return !output.defined() || output.is_host() || is_integral(output.dtype()) ||
         contains(context->constants_, output);
}

}  // namespace kernbench::autograd
